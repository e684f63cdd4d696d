// Hashes, random bytes and comparisons for secrets. OpenSSL stays behind this header. Thread-safe: no state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "foreshock/base/result.h"

namespace foreshock {

// SHA-256 as 64 lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

// Whether both are equal; takes the same time for all contents of the same length.
bool SameSecret(std::string_view a, std::string_view b);

// From the system's generator, as URL-safe base64 without padding. kInternal when the generator fails.
Result<std::string> RandomText(size_t bytes);

}  // namespace foreshock
