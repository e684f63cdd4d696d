#include "foreshock/json/writer.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace foreshock::json {
namespace {

template <typename Number>
void AppendNumber(Number value, std::string* out) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  out->append(digits, end.ptr);
}

bool IsContinuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// Length of the valid UTF-8 character that `text` begins with; 0 when it begins with none.
size_t CharacterLength(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(at(i))) return 0;
  }
  // Overlong forms, surrogates, and what lies above U+10FFFF.
  if (first == 0xe0 && at(1) < 0xa0) return 0;
  if (first == 0xed && at(1) > 0x9f) return 0;
  if (first == 0xf0 && at(1) < 0x90) return 0;
  if (first == 0xf4 && at(1) > 0x8f) return 0;
  return length;
}

void AppendEscaped(char c, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  switch (c) {
    case '"':
      *out += "\\\"";
      return;
    case '\\':
      *out += "\\\\";
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\t':
      *out += "\\t";
      return;
    case '\r':
      *out += "\\r";
      return;
    default:
      break;
  }
  if (byte >= 0x20 && byte != 0x7f) {
    out->push_back(c);
    return;
  }
  *out += "\\u00";
  out->push_back(kHex[byte >> 4]);
  out->push_back(kHex[byte & 15]);
}

void AppendQuoted(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) {
      *out += "\xef\xbf\xbd";
      text.remove_prefix(1);
      continue;
    }
    if (length == 1) {
      AppendEscaped(text[0], out);
    } else {
      out->append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  out->push_back('"');
}

}  // namespace

// A comma goes before every value or key that does not open its container or follow its key.
void Writer::Comma() {
  if (out_.empty()) return;
  const char last = out_.back();
  if (last != '{' && last != '[' && last != ':') out_.push_back(',');
}

Writer& Writer::BeginObject() {
  Comma();
  out_.push_back('{');
  return *this;
}

Writer& Writer::EndObject() {
  out_.push_back('}');
  return *this;
}

Writer& Writer::BeginArray() {
  Comma();
  out_.push_back('[');
  return *this;
}

Writer& Writer::EndArray() {
  out_.push_back(']');
  return *this;
}

Writer& Writer::Key(std::string_view key) {
  Comma();
  AppendQuoted(key, &out_);
  out_.push_back(':');
  return *this;
}

Writer& Writer::Null() { return Raw("null"); }
Writer& Writer::Bool(bool value) { return Raw(value ? "true" : "false"); }

Writer& Writer::Int(int64_t value) {
  Comma();
  AppendNumber(value, &out_);
  return *this;
}

Writer& Writer::Uint(uint64_t value) {
  Comma();
  AppendNumber(value, &out_);
  return *this;
}

template <typename Number>
Writer& Writer::Real(Number value) {
  if (std::isnan(value)) return Raw("\"NaN\"");
  if (std::isinf(value)) return Raw(value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
  // "-0" is valid JSON, and the integer 0 to Python's reader and to nlohmann's: its sign would be lost.
  if (value == 0 && std::signbit(value)) return Raw("-0.0");
  Comma();
  AppendNumber(value, &out_);
  return *this;
}

Writer& Writer::Float(float value) { return Real(value); }
Writer& Writer::Double(double value) { return Real(value); }

Writer& Writer::String(std::string_view value) {
  Comma();
  AppendQuoted(value, &out_);
  return *this;
}

Writer& Writer::Raw(std::string_view json) {
  Comma();
  out_ += json;
  return *this;
}

std::string Rfc3339(int64_t unix_ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t fraction = ((unix_ns % kSecond) + kSecond) % kSecond;
  const std::time_t seconds = static_cast<std::time_t>((unix_ns - fraction) / kSecond);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char day[32], text[48];
  std::strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%09dZ", day, static_cast<int>(fraction));
  return text;
}

}  // namespace foreshock::json
