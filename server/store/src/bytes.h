// Bytes of sealed chunks: variable-length integers, lists of integers, and a reader that never reads past the
// end. Formats: docs/formats/store.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreshock::store {

inline uint64_t ZigZag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}
inline int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

class ByteWriter {
 public:
  explicit ByteWriter(std::string* out) : out_(out) {}
  void U8(uint8_t value) { out_->push_back(static_cast<char>(value)); }
  // Seven bits a byte, least significant first, high bit set on all but the last.
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) U8(static_cast<uint8_t>(value | 0x80));
    U8(static_cast<uint8_t>(value));
  }
  void Bytes(std::string_view bytes) { out_->append(bytes); }
  // Differences to the entry before (the first: to 0), each with how often it repeats. Steps at a fixed
  // distance cost a few bytes, however many. The count is not written.
  void Ints(std::span<const int64_t> values) {
    uint64_t before = 0;
    for (size_t i = 0; i < values.size();) {
      const uint64_t difference = static_cast<uint64_t>(values[i]) - before;
      size_t run = 0;
      while (i < values.size() && static_cast<uint64_t>(values[i]) - before == difference) {
        before = static_cast<uint64_t>(values[i++]);
        ++run;
      }
      Varint(ZigZag(static_cast<int64_t>(difference)));
      Varint(run);
    }
  }

 private:
  std::string* out_;
};

// After a read past the end, or of something malformed, ok() is false and every read gives zeros.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }
  size_t left() const { return rest_.size(); }
  uint8_t U8() {
    const std::string_view byte = Bytes(1);
    return byte.empty() ? 0 : static_cast<uint8_t>(byte[0]);
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = U8();
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  // A count or size that must not exceed `limit`.
  size_t Size(size_t limit) {
    const uint64_t value = Varint();
    if (value > limit) ok_ = false;
    return ok_ ? static_cast<size_t>(value) : 0;
  }
  std::string_view Bytes(size_t count) {
    if (!ok_ || rest_.size() < count) {
      ok_ = false;
      return {};
    }
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  std::vector<int64_t> Ints(size_t count) {
    std::vector<int64_t> values;
    uint64_t value = 0;
    while (ok_ && values.size() < count) {
      const auto difference = static_cast<uint64_t>(UnZigZag(Varint()));
      const uint64_t run = Varint();
      if (run == 0 || run > count - values.size()) ok_ = false;
      for (uint64_t i = 0; ok_ && i < run; ++i) values.push_back(static_cast<int64_t>(value += difference));
    }
    if (!ok_) values.clear();
    return values;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace foreshock::store
