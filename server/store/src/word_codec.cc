#include "word_codec.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace foreshock::store {
namespace {

enum PlaneForm : uint8_t { kOneByte = 0, kPlain = 1, kZstd = 2 };

// Deltas of measured numbers hardly repeat: a code of single bytes is all there is to gain, at a third of the
// cost of looking for repetitions. The lowest level does not look, and codes the bytes only when told to.
constexpr int kBytesOnly = -100'000;
constexpr int kLevel = 1;             // higher levels look for repetitions that noise does not have
constexpr size_t kMayRepeat = 4;      // a plane that shrinks to a fourth is worth looking
constexpr size_t kLeastForZstd = 24;  // shorter planes are not worth a header
constexpr double kNoise = 1.3;        // pairs of equal bytes, as a multiple of what even ones have
constexpr size_t kMostSamples = 1024;

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
std::unique_ptr<ZSTD_CCtx, FreeContext> NewCompressor(int level) {
  // literalCompressionMode, which zstd.h names for static linking only; 1: always Huffman's code.
  constexpr ZSTD_cParameter kLiterals = ZSTD_c_experimentalParam5;
  std::unique_ptr<ZSTD_CCtx, FreeContext> made(ZSTD_createCCtx());
  if (made == nullptr) return made;
  // Where a library does not know a parameter, planes are larger, not wrong.
  ZSTD_CCtx_setParameter(made.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(made.get(), kLiterals, 1);
  return made;
}
// Making one costs more than compressing a plane with it.
ZSTD_CCtx* BytesOnly() {
  thread_local const auto context = NewCompressor(kBytesOnly);
  return context.get();
}
ZSTD_CCtx* Compressor() {
  thread_local const auto context = NewCompressor(kLevel);
  return context.get();
}
ZSTD_DCtx* Decompressor() {
  thread_local const std::unique_ptr<ZSTD_DCtx, FreeContext> context(ZSTD_createDCtx());
  return context.get();
}

// Whether the bytes are so evenly spread that no code of single bytes would help, judged by how often two of
// some samples are equal: 1 in 256 when all values are equally frequent.
bool IsNoise(std::span<const uint8_t> plane) {
  constexpr size_t kSamples = 512;
  uint16_t counts[256] = {};
  const size_t stride = std::max<size_t>(plane.size() / kSamples, 1);
  size_t n = 0;
  for (size_t i = 0; i < plane.size() && n < kMostSamples; i += stride, ++n) ++counts[plane[i]];
  uint32_t equal_pairs = 0;
  for (const uint32_t count : counts) equal_pairs += count * (count - (count > 0 ? 1 : 0));
  return static_cast<double>(equal_pairs) * 256 <
         kNoise * static_cast<double>(n) * static_cast<double>(n - 1);
}

// Bytes of the frame in *out, whose size never shrinks; the plane's own size when it cannot be made.
size_t Compress(ZSTD_CCtx* context, std::span<const uint8_t> plane, std::string* out) {
  if (context == nullptr) return plane.size();
  if (out->size() < ZSTD_compressBound(plane.size())) out->resize(ZSTD_compressBound(plane.size()));
  const size_t bytes = ZSTD_compress2(context, out->data(), out->size(), plane.data(), plane.size());
  return ZSTD_isError(bytes) != 0 ? plane.size() : bytes;
}

void PutPlane(std::span<const uint8_t> plane, std::string* out) {
  ByteWriter w(out);
  if (plane.front() == plane.back() && std::memcmp(plane.data(), plane.data() + 1, plane.size() - 1) == 0) {
    w.U8(kOneByte);
    w.U8(plane.front());
    return;
  }
  if (plane.size() >= kLeastForZstd && !IsNoise(plane)) {
    thread_local std::string small, smaller;
    size_t bytes = Compress(BytesOnly(), plane, &small);
    if (bytes <= plane.size() / kMayRepeat) {
      const size_t fewer = Compress(Compressor(), plane, &smaller);
      if (fewer < bytes) small.swap(smaller), bytes = fewer;
    }
    if (bytes + 4 < plane.size()) {
      w.U8(kZstd);
      w.Varint(bytes);
      w.Bytes({small.data(), bytes});
      return;
    }
  }
  w.U8(kPlain);
  w.Bytes({reinterpret_cast<const char*>(plane.data()), plane.size()});
}

constexpr size_t kKeptScratch = 1 << 20;  // a larger plane's memory is given back

// The plane's bytes: in the reader's memory, or in *scratch, which never shrinks.
const uint8_t* ReadPlane(ByteReader* reader, size_t count, std::string* scratch) {
  const uint8_t form = reader->U8();
  if (form == kPlain) return reinterpret_cast<const uint8_t*>(reader->Bytes(count).data());
  if (scratch->size() < count) scratch->resize(count);
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

// __restrict: stores of single bytes may change anything else, and the loops would not become vector code.
void FoldAll(const uint32_t* __restrict words, size_t n, size_t width, uint32_t* __restrict folded) {
  const uint32_t first = words[0];
  for (size_t i = 0; i < width; ++i) folded[i] = Fold(words[i] - first);
  for (size_t i = width; i < n; ++i) folded[i] = Fold(words[i] - words[i - width]);
}
void TakePlane(const uint32_t* __restrict folded, size_t n, int shift, uint8_t* __restrict plane) {
  for (size_t i = 0; i < n; ++i) plane[i] = static_cast<uint8_t>(folded[i] >> shift);
}
void JoinPlanes(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d, size_t n,
                uint32_t* __restrict words) {
  for (size_t i = 0; i < n; ++i) {
    words[i] = Unfold(uint32_t{a[i]} | uint32_t{b[i]} << 8 | uint32_t{c[i]} << 16 | uint32_t{d[i]} << 24);
  }
}
void AddRow(const uint32_t* __restrict before, size_t width, uint32_t* __restrict row) {
  for (size_t k = 0; k < width; ++k) row[k] += before[k];
}

}  // namespace

void PutWords(std::span<const uint32_t> words, size_t width, std::string* out) {
  if (words.empty()) return;
  const size_t n = words.size();
  ByteWriter w(out);
  for (int shift = 0; shift < 32; shift += 8) w.U8(static_cast<uint8_t>(words[0] >> shift));
  thread_local Words folded;
  thread_local std::vector<uint8_t> plane;
  folded.resize(n);
  plane.resize(n);
  FoldAll(words.data(), n, width, folded.data());
  for (int shift = 0; shift < 32; shift += 8) {
    TakePlane(folded.data(), n, shift, plane.data());
    PutPlane(plane, out);
  }
}

bool ReadWords(ByteReader* reader, size_t rows, size_t width, Words* words) {
  return ReadWords(reader, rows, width, rows, words);
}

bool ReadWords(ByteReader* reader, size_t rows, size_t width, size_t first_rows, Words* words) {
  if (rows == 0 || width == 0) return reader->ok();
  if (width > kMaxWords || rows > kMaxWords / width) return false;
  const size_t n = rows * width, base = words->size();
  uint32_t first = 0;
  for (int shift = 0; shift < 32; shift += 8) first |= uint32_t{reader->U8()} << shift;
  thread_local std::string scratch[4];
  const uint8_t* planes[4];
  for (int p = 0; p < 4; ++p) {
    planes[p] = ReadPlane(reader, n, &scratch[p]);
    if (!reader->ok() || planes[p] == nullptr) return false;
  }
  const size_t wanted = std::min(rows, first_rows) * width;
  words->resize(base + wanted);
  uint32_t* const to = words->data() + base;
  JoinPlanes(planes[0], planes[1], planes[2], planes[3], wanted, to);
  for (size_t i = 0; i < std::min(width, wanted); ++i) to[i] += first;
  for (size_t i = width; i < wanted; i += width) AddRow(to + i - width, width, to + i);
  if (n > kKeptScratch) {
    for (std::string& plane : scratch) std::string().swap(plane);
  }
  return true;
}

void PutBits(std::span<const uint8_t> bits, std::string* out) {
  if (bits.empty()) return;
  std::vector<uint8_t> packed((bits.size() + 7) / 8);
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] != 0) packed[i / 8] = static_cast<uint8_t>(packed[i / 8] | 1u << i % 8);
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
