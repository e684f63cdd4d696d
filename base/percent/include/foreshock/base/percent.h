// Percent-encoding (RFC 3986, section 2.1).
#pragma once

#include <string>
#include <string_view>

namespace foreshock {

// Every byte but letters, digits, '-', '_', '.', '~' (the unreserved characters) and those of `also_plain` as
// % and two hexadecimal digits.
std::string PercentEncode(std::string_view text, std::string_view also_plain = {});

}  // namespace foreshock
