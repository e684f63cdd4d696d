// What the benchmarks of the attention and rounding probes share: giving up on errors, inputs, device time of
// calls.
#pragma once

#include <cuda_runtime_api.h>
#include <errno.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "foreshock/sdk/cuda/attention_probe.h"

namespace foreshock::bench {

// Ends the program, naming it, when a call failed.
inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, cudaGetErrorString(error));
  std::exit(1);
}
inline void Check(const cuda::LaunchStatus& launch) {
  if (launch.ok()) return;
  std::fprintf(stderr, "%s: launch: %s, %d\n", program_invocation_short_name,
               kernels::KernelStatusName(launch.status), launch.cuda_error);
  std::exit(1);
}

// bf16 normals of mean 0.
inline std::vector<uint16_t> Normals(size_t count, double size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(size));
  std::vector<uint16_t> out(count);
  for (uint16_t& x : out) x = kernels::ToBf16(normal(random)).bits;
  return out;
}

// Median over `batches` of the device time of one call, in milliseconds: `enqueue()` makes `calls` of them on
// the default stream. Two batches warm up.
template <typename Enqueue>
double MedianMillisecondsOf(int batches, size_t calls, const Enqueue& enqueue) {
  cudaEvent_t begin = nullptr, end = nullptr;
  Check(cudaEventCreate(&begin), "cudaEventCreate");
  Check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<double> times;
  for (int batch = -2; batch < batches; ++batch) {
    Check(cudaEventRecord(begin), "cudaEventRecord");
    enqueue();
    Check(cudaEventRecord(end), "cudaEventRecord");
    Check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (batch >= 0) times.push_back(static_cast<double>(ms) / static_cast<double>(calls));
  }
  Check(cudaEventDestroy(begin), "cudaEventDestroy");
  Check(cudaEventDestroy(end), "cudaEventDestroy");
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace foreshock::bench
