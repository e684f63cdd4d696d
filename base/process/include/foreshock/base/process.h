// What a process has used so far, from Linux' /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "foreshock/base/result.h"

namespace foreshock {

struct ProcessUsage {
  double cpu_seconds = 0;            // in the kernel and outside, all threads
  double start_unix_seconds = 0;     // when it started
  uint64_t virtual_bytes = 0;        // address space
  uint64_t resident_bytes = 0;       // in memory, shared pages included
  uint64_t peak_resident_bytes = 0;  // the most of it so far
  uint64_t threads = 0;
  uint64_t open_fds = 0, max_fds = 0;  // file descriptors and their soft limit; 0 where we may not look
};

// kNotFound when there is no such process, kDataLoss when /proc is not as proc(5) says. pid 0: this process.
Result<ProcessUsage> ReadProcessUsage(pid_t pid = 0);

}  // namespace foreshock
