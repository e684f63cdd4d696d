// Matcher: a protozero writer's calls, which compare with bytes instead of writing some.
//
// Length-delimited messages are written by protozero with lengths of as few bytes as they need; a Matcher
// takes no other. The first difference makes ok() false for good.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <protozero/types.hpp>
#include <string_view>

namespace foreshock::wire {

class Matcher {
 public:
  explicit Matcher(std::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

  bool ok() const { return ok_; }
  // Nothing differed and nothing is left.
  bool Matches() const { return ok_ && at_ == end_; }
  // The bytes of the message that must begin here.
  Matcher Message(protozero::pbf_tag_type tag) {
    Key(tag, protozero::pbf_wire_type::length_delimited);
    uint64_t length = 0;
    const char* p = at_;
    for (unsigned shift = 0; p < end_ && shift < 35; shift += 7) {
      const auto byte = static_cast<uint8_t>(*p++);
      length |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    Varint(length);
    if (!ok_ || length > static_cast<size_t>(end_ - at_)) return Fail();
    Matcher inner(std::string_view(at_, length));
    at_ += length;
    return inner;
  }
  void Take(const Matcher& inner) { ok_ = ok_ && inner.Matches(); }

  void add_uint64(protozero::pbf_tag_type tag, uint64_t value) {
    Key(tag, protozero::pbf_wire_type::varint);
    Varint(value);
  }
  void add_uint32(protozero::pbf_tag_type tag, uint32_t value) { add_uint64(tag, value); }
  void add_int64(protozero::pbf_tag_type tag, int64_t value) {
    add_uint64(tag, static_cast<uint64_t>(value));
  }
  void add_fixed64(protozero::pbf_tag_type tag, uint64_t value) {
    Key(tag, protozero::pbf_wire_type::fixed64);
    Fixed64(value);
  }
  void add_bytes(protozero::pbf_tag_type tag, const char* data, size_t size) {
    Key(tag, protozero::pbf_wire_type::length_delimited);
    Varint(size);
    Bytes(data, size);
  }
  template <typename Iterator>
  void add_packed_uint32(protozero::pbf_tag_type tag, Iterator begin, Iterator end) {
    if (begin == end) return;
    Matcher list = Message(tag);
    for (; begin != end; ++begin) list.Varint(*begin);
    Take(list);
  }
  template <typename Iterator>
  void add_packed_fixed64(protozero::pbf_tag_type tag, Iterator begin, Iterator end) {
    if (begin == end) return;
    Matcher list = Message(tag);
    for (; begin != end; ++begin) list.Fixed64(*begin);
    Take(list);
  }
  template <typename Iterator>
  void add_packed_float(protozero::pbf_tag_type tag, Iterator begin, Iterator end) {
    if (begin == end) return;
    Matcher list = Message(tag);
    for (; begin != end; ++begin) list.Number(std::bit_cast<uint32_t>(*begin), 4);
    Take(list);
  }

 private:
  Matcher Fail() {
    ok_ = false;
    Matcher none{std::string_view()};
    none.ok_ = false;
    return none;
  }
  void Key(protozero::pbf_tag_type tag, protozero::pbf_wire_type type) {
    Varint(tag << 3 | static_cast<uint32_t>(type));
  }
  void Byte(uint8_t byte) {
    if (at_ < end_ && static_cast<uint8_t>(*at_) == byte) {
      ++at_;
    } else {
      ok_ = false;
      at_ = end_;
    }
  }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<uint8_t>(value | 0x80));
    Byte(static_cast<uint8_t>(value));
  }
  void Fixed64(uint64_t value) { Number(value, 8); }
  // Lowest byte first.
  void Number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) Byte(static_cast<uint8_t>(value >> 8 * i));
  }
  void Bytes(const char* data, size_t size) {
    if (static_cast<size_t>(end_ - at_) < size || (size > 0 && std::memcmp(at_, data, size) != 0)) {
      ok_ = false;
      at_ = end_;
      return;
    }
    at_ += size;
  }

  const char* at_;
  const char* end_;
  bool ok_ = true;
};

}  // namespace foreshock::wire
