// Well-formed UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace foreshock::wire {

// Length of the well-formed UTF-8 character at the front of `text`; 0: there is none.
size_t Utf8Length(std::string_view text);

// `text` with every byte that belongs to no well-formed character replaced by U+FFFD.
std::string MendUtf8(std::string_view text);

}  // namespace foreshock::wire
