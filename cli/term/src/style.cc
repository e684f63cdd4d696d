#include "foreshock/cli/style.h"

#include <cstring>

namespace foreshock::cli {
namespace {

constexpr char kEscape = '\x1b';

std::string_view Code(Paint paint) {
  switch (paint) {
    case Paint::kPlain:
      return "";
    case Paint::kBold:
      return "1";
    case Paint::kDim:
      return "2";
    case Paint::kRed:
      return "1;31";
    case Paint::kYellow:
      return "33";
    case Paint::kGreen:
      return "32";
    case Paint::kCyan:
      return "36";
  }
  return "";
}

// Length of the well-formed UTF-8 sequence at the front of `text`, 0 when there is none.
size_t SequenceLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  size_t length = lead < 0x80                   ? 1
                  : lead >= 0xC2 && lead < 0xE0 ? 2
                  : lead >= 0xE0 && lead < 0xF0 ? 3
                  : lead >= 0xF0 && lead < 0xF5 ? 4
                                                : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  const auto second = length > 1 ? static_cast<unsigned char>(text[1]) : 0;
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0)) return 0;  // overlong, surrogate
  if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) return 0;
  return length;
}

bool IsControl(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead < 0x20 || lead == 0x7F;
  // U+0080..U+009F: a terminal may take U+009B for an escape.
  return sequence.size() == 2 && lead == 0xC2 && static_cast<unsigned char>(sequence[1]) < 0xA0;
}

}  // namespace

std::string Style::operator()(Paint paint, std::string_view text) const {
  const std::string_view code = Code(paint);
  if (!colour || code.empty() || text.empty()) return std::string(text);
  std::string out = "\x1b[";
  out.append(code).append("m").append(text).append("\x1b[0m");
  return out;
}

std::string Style::Block(int colour256, std::string_view text) const {
  if (!colour) return std::string(text);
  std::string out = "\x1b[48;5;" + std::to_string(colour256) + "m";
  out.append(text).append("\x1b[0m");
  return out;
}

Style StyleFor(bool is_terminal, const char* no_color, const char* term, int columns) {
  Style style;
  style.terminal = is_terminal;
  const bool refused = no_color != nullptr && *no_color != '\0';
  const bool dumb = term == nullptr || *term == '\0' || std::strcmp(term, "dumb") == 0;
  style.colour = is_terminal && !refused && !dumb;
  if (columns > 0) style.columns = columns;
  return style;
}

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0 || IsControl(text.substr(0, length))) {
      out.push_back('?');
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kEscape) {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {
      ++width;
    }
  }
  return width;
}

}  // namespace foreshock::cli
