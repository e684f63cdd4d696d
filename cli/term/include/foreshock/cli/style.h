// How a command may decorate its output. Pure: what the terminal is gets passed in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foreshock::cli {

enum class Paint : uint8_t { kPlain, kBold, kDim, kRed, kYellow, kGreen, kCyan };

// What the output may hold. Plain by default: no escapes, ASCII and UTF-8 text only.
struct Style {
  bool colour = false;    // escapes are allowed
  bool terminal = false;  // a person looks at it: sparklines and heat maps instead of plain numbers
  int columns = 100;      // width to fit into

  // `text` in a colour; unchanged without colour.
  std::string operator()(Paint paint, std::string_view text) const;
  // Two columns of background in one of 256 colours; unchanged width without colour (two spaces).
  std::string Block(int colour256, std::string_view text = "  ") const;
};

// What `environment` and the descriptor say: colour only on a terminal, when NO_COLOR is unset or empty and
// TERM is not "dumb". `no_color` and `term` may be null (unset). `columns` <= 0: unknown.
Style StyleFor(bool is_terminal, const char* no_color, const char* term, int columns);

// Text that came from elsewhere, made safe for a terminal: control characters (escapes above all) become '?'.
// Bytes that are not UTF-8 too.
std::string Printable(std::string_view text);

// Columns that UTF-8 text takes on a terminal, escapes of this component counting as none. Wide characters
// are not known: each code point counts as one.
size_t DisplayWidth(std::string_view text);

}  // namespace foreshock::cli
