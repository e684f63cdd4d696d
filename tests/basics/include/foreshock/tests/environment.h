// Settings of long tests: how much, and which seed.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace foreshock::tests {

// The number in an environment variable, or `otherwise` where it is not set.
inline uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace foreshock::tests
