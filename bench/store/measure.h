// What the store's benchmarks measure with.
#pragma once

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "foreshock/base/result.h"

namespace foreshock::bench {

// Seconds.
inline double Now(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of all files below a folder, which may be written to meanwhile.
inline uint64_t BytesIn(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::error_code gone;
    if (entry.is_regular_file(gone)) bytes += entry.file_size(gone);
  }
  return bytes;
}

// Ends the benchmark with what went wrong.
inline void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

}  // namespace foreshock::bench
