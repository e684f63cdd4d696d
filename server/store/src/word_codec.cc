#include "word_codec.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace foreshock::store {
namespace {

enum PlaneForm : uint8_t { kOneByte = 0, kPlain = 1, kZstd = 2 };

constexpr int kLevel = 1;             // higher levels look for repetitions that noise does not have
constexpr size_t kLeastForZstd = 24;  // shorter planes are not worth a header
constexpr double kNoise = 1.3;        // pairs of equal bytes, as a multiple of what even ones have

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
// Making one costs more than compressing a plane with it.
ZSTD_CCtx* Compressor() {
  thread_local const std::unique_ptr<ZSTD_CCtx, FreeContext> context(ZSTD_createCCtx());
  return context.get();
}
ZSTD_DCtx* Decompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  return context.get();
}

// Whether the bytes are so evenly spread that no code of single bytes would help, judged by how often two of
// about a thousand samples are equal: 1 in 256 when all values are equally frequent.
bool IsNoise(const std::string& plane) {
  constexpr size_t kSamples = 1024;
  uint32_t counts[256] = {};
  const size_t stride = std::max<size_t>(plane.size() / kSamples, 1);
  size_t n = 0;
  for (size_t i = 0; i < plane.size(); i += stride, ++n) ++counts[static_cast<uint8_t>(plane[i])];
  uint64_t equal_pairs = 0;
  for (const uint64_t count : counts) equal_pairs += count * (count - 1);
  return static_cast<double>(equal_pairs) * 256 <
         kNoise * static_cast<double>(n) * static_cast<double>(n - 1);
}

void PutPlane(const std::string& plane, std::string* out) {
  ByteWriter w(out);
  if (std::all_of(plane.begin(), plane.end(), [&](char c) { return c == plane.front(); })) {
    w.U8(kOneByte);
    w.U8(static_cast<uint8_t>(plane.front()));
    return;
  }
  if (plane.size() >= kLeastForZstd && !IsNoise(plane) && Compressor() != nullptr) {
    std::string small(ZSTD_compressBound(plane.size()), '\0');
    const size_t bytes =
        ZSTD_compressCCtx(Compressor(), small.data(), small.size(), plane.data(), plane.size(), kLevel);
    if (ZSTD_isError(bytes) == 0 && bytes + 4 < plane.size()) {
      w.U8(kZstd);
      w.Varint(bytes);
      w.Bytes({small.data(), bytes});
      return;
    }
  }
  w.U8(kPlain);
  w.Bytes(plane);
}

// The plane's bytes: in the reader's memory, or in *scratch.
const uint8_t* ReadPlane(ByteReader* reader, size_t count, std::string* scratch) {
  const uint8_t form = reader->U8();
  if (form == kPlain) return reinterpret_cast<const uint8_t*>(reader->Bytes(count).data());
  scratch->resize(count);
  if (form == kOneByte) {
    std::memset(scratch->data(), reader->U8(), count);
  } else if (form == kZstd) {
    const std::string_view small = reader->Bytes(reader->Size(reader->left()));
    if (!reader->ok() || Decompressor() == nullptr) return nullptr;
    const size_t got =
        ZSTD_decompressDCtx(Decompressor(), scratch->data(), count, small.data(), small.size());
    if (ZSTD_isError(got) != 0 || got != count) return nullptr;
  } else {
    return nullptr;
  }
  return reinterpret_cast<const uint8_t*>(scratch->data());
}

uint32_t Fold(uint32_t difference) { return difference << 1 ^ (0 - (difference >> 31)); }
uint32_t Unfold(uint32_t folded) { return folded >> 1 ^ (0 - (folded & 1)); }

}  // namespace

void PutWords(std::span<const uint32_t> words, size_t width, std::string* out) {
  if (words.empty()) return;
  const size_t n = words.size();
  ByteWriter w(out);
  for (int shift = 0; shift < 32; shift += 8) w.U8(static_cast<uint8_t>(words[0] >> shift));
  std::vector<uint32_t> folded(n);
  for (size_t i = 0; i < width; ++i) folded[i] = Fold(words[i] - words[0]);
  for (size_t i = width; i < n; ++i) folded[i] = Fold(words[i] - words[i - width]);
  std::string plane(n, '\0');
  for (int shift = 0; shift < 32; shift += 8) {
    for (size_t i = 0; i < n; ++i) plane[i] = static_cast<char>(folded[i] >> shift);
    PutPlane(plane, out);
  }
}

bool ReadWords(ByteReader* reader, size_t rows, size_t width, std::vector<uint32_t>* words) {
  if (rows == 0 || width == 0) return reader->ok();
  if (width > kMaxWords || rows > kMaxWords / width) return false;
  const size_t n = rows * width, base = words->size();
  uint32_t first = 0;
  for (int shift = 0; shift < 32; shift += 8) first |= uint32_t{reader->U8()} << shift;
  std::string scratch[4];
  const uint8_t* planes[4];
  for (int p = 0; p < 4; ++p) {
    planes[p] = ReadPlane(reader, n, &scratch[p]);
    if (!reader->ok() || planes[p] == nullptr) return false;
  }
  words->resize(base + n);
  uint32_t* const to = words->data() + base;
  const uint8_t *a = planes[0], *b = planes[1], *c = planes[2], *d = planes[3];
  for (size_t i = 0; i < n; ++i) {
    to[i] = Unfold(uint32_t{a[i]} | uint32_t{b[i]} << 8 | uint32_t{c[i]} << 16 | uint32_t{d[i]} << 24);
  }
  for (size_t i = 0; i < width; ++i) to[i] += first;
  for (size_t row = 1; row < rows; ++row) {
    uint32_t* const at = to + row * width;
    for (size_t i = 0; i < width; ++i) at[i] += at[i - width];
  }
  return true;
}

void PutBits(std::span<const uint8_t> bits, std::string* out) {
  if (bits.empty()) return;
  std::string packed((bits.size() + 7) / 8, '\0');
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] != 0) packed[i / 8] = static_cast<char>(static_cast<uint8_t>(packed[i / 8]) | 1u << i % 8);
  }
  PutPlane(packed, out);
}

bool ReadBits(ByteReader* reader, size_t count, std::vector<uint8_t>* bits) {
  if (count == 0) return reader->ok();
  if (count > kMaxWords) return false;
  std::string scratch;
  const uint8_t* const packed = ReadPlane(reader, (count + 7) / 8, &scratch);
  if (!reader->ok() || packed == nullptr) return false;
  bits->resize(count);
  for (size_t i = 0; i < count; ++i) (*bits)[i] = packed[i / 8] >> i % 8 & 1;
  return true;
}

}  // namespace foreshock::store
