// Device work of the weight benchmarks beside the probe's own. All on the default stream.
#pragma once

#include <cstddef>

namespace foreshock::bench {

// Reads `bytes` of device memory once.
void LaunchRead(const void* data, size_t bytes, void* scratch);
// Fills with pseudo-random numbers of standard deviation about `size`.
void LaunchFill(void* data, size_t count, bool bf16, float size, unsigned seed);
void LaunchAdd(const void* from, const void* change, void* to, size_t count, bool bf16);

}  // namespace foreshock::bench
