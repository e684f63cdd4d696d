// Writes JSON text piece by piece into one string; no tree is built.
//
// The rules of every JSON answer of Foreshock:
//   missing                null
//   NaN, +Inf, -Inf        the strings "NaN", "Infinity", "-Infinity"
//   float                  the shortest digits that read back to the same float32, bit for bit
//   double                 likewise for float64
//   -0.0                   "-0.0", because readers take "-0" for the integer 0
//   text                   UTF-8; bytes that are not UTF-8 become U+FFFD
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foreshock::json {

class Writer {
 public:
  // Containers. The caller closes what it opens; keys only inside objects.
  Writer& BeginObject();
  Writer& EndObject();
  Writer& BeginArray();
  Writer& EndArray();
  Writer& Key(std::string_view key);

  Writer& Null();
  Writer& Bool(bool value);
  Writer& Int(int64_t value);
  Writer& Uint(uint64_t value);
  Writer& Float(float value);
  Writer& Double(double value);
  Writer& String(std::string_view value);
  // A value that is JSON text already; it is taken as it is.
  Writer& Raw(std::string_view json);

  const std::string& text() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  void Comma();
  template <typename Number>
  Writer& Real(Number value);

  std::string out_;
};

// "2026-11-29T14:00:00.123456789Z" of nanoseconds since the Unix epoch.
std::string Rfc3339(int64_t unix_ns);

}  // namespace foreshock::json
