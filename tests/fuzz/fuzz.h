// What the fuzz targets share. A target is one function, LLVMFuzzerTestOneInput, in a file of its own:
// libFuzzer calls it (preset fuzz), and so does replay_main.cc with the kept corpus, in every build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace foreshock::fuzz {

inline std::string_view Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Ends the process: libFuzzer keeps the input.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace foreshock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
