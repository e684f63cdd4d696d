// Device time of the rounding probe, beside the time that its fp32 multiply-adds alone would need.
//
//   bench_cuda_rounding [--json FILE]
//
// One row in eight, causal, bf16. "forward": O alone; "backward": with dO and dQ. Inputs rotate past the L2;
// figures are medians over batches of calls.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "foreshock/sdk/cuda/rounding_probe.h"
#include "probe_timing.h"

namespace {

using namespace foreshock;
using bench::Check;
using kernels::DType;
using kernels::RoundingHeadStats;
using kernels::RoundingProblem;

constexpr double kFp32Teraflops = 67;  // H200 datasheet, dense, no tensor cores

struct Case {
  const char* name;
  int64_t batch, heads, kv_heads, length, dim;
  bool backward;
};

constexpr Case kCases[] = {
    {"16x12x1024x64 forward", 16, 12, 12, 1024, 64, false},
    {"16x12x1024x64 backward", 16, 12, 12, 1024, 64, true},
    {"2x32x4096x128 forward", 2, 32, 32, 4096, 128, false},
    {"2x32x4096x128 backward", 2, 32, 32, 4096, 128, true},
    {"2x32/8x4096x128 backward", 2, 32, 8, 4096, 128, true},
};

// bf16 normals on the device.
void* Tensor(int64_t count, uint64_t seed) {
  const std::vector<uint16_t> sample = bench::Normals(1 << 20, 1, seed);
  void* p = nullptr;
  Check(cudaMalloc(&p, static_cast<size_t>(count) * 2), "cudaMalloc");
  for (int64_t at = 0; at < count; at += static_cast<int64_t>(sample.size())) {
    const auto n = static_cast<size_t>(std::min<int64_t>(count - at, static_cast<int64_t>(sample.size())));
    Check(cudaMemcpy(static_cast<uint16_t*>(p) + at, sample.data(), 2 * n, cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  return p;
}

double MedianMilliseconds(const Case& c) {
  std::vector<void*> owned;
  const int64_t q_count = c.batch * c.heads * c.length * c.dim, k_count = q_count / c.heads * c.kv_heads;
  std::vector<RoundingProblem> problems(3);
  uint64_t seed = 0;
  const auto tensor = [&](int64_t heads) {
    owned.push_back(Tensor(heads == c.heads ? q_count : k_count, ++seed));
    return kernels::Bhsd(owned.back(), DType::kBf16, c.batch, c.length, heads, c.dim);
  };
  for (RoundingProblem& p : problems) {
    p.attention.q = tensor(c.heads);
    p.attention.k = tensor(c.kv_heads);
    p.attention.scale = 1 / std::sqrt(static_cast<float>(c.dim));
    p.attention.causal = true;
    p.attention.sampling.row_every = 8;
    p.v = tensor(c.kv_heads);
    p.o = tensor(c.heads);
    if (!c.backward) continue;
    p.d_o = tensor(c.heads);
    p.dq = tensor(c.heads);
  }
  const size_t bytes = cuda::RoundingProbeWorkspaceBytes(problems[0]);
  void* workspace = nullptr;
  void* out = nullptr;
  Check(cudaMalloc(&workspace, bytes), "cudaMalloc");
  Check(cudaMalloc(&out, static_cast<size_t>(c.heads) * sizeof(RoundingHeadStats)), "cudaMalloc");
  owned.insert(owned.end(), {workspace, out});
  const double median = bench::MedianMillisecondsOf(11, problems.size(), [&] {
    for (const RoundingProblem& p : problems) {
      Check(cuda::LaunchRoundingProbe(p, nullptr, static_cast<RoundingHeadStats*>(out), {workspace, bytes},
                                      nullptr));
    }
  });
  for (void* p : owned) Check(cudaFree(p), "cudaFree");
  return median;
}

}  // namespace

int main(int argc, char** argv) {
#ifndef NDEBUG
  std::fprintf(stderr, "cuda_rounding: figures need a Release build\n");
  return 1;
#endif
  if (!cuda::DriverSupport().usable) {
    std::printf("cuda_rounding: skipped: %s\n", cuda::DriverSupport().reason.c_str());
    return 0;
  }
  const bool to_file = argc == 3 && std::strcmp(argv[1], "--json") == 0;
  std::FILE* json = to_file ? std::fopen(argv[2], "w") : nullptr;
  std::printf("%-26s %10s %10s %8s\n", "rounding probe, 1/8", "ms", "fp32 ms", "share");
  for (const Case& c : kCases) {
    const double ms = MedianMilliseconds(c);
    const double scores = static_cast<double>(c.batch * c.heads * c.length * c.length) / 2 / 8;
    // q.k twice and P V; with gradients dO.v, P K and dQ.
    const double floor_ms =
        (c.backward ? 6 : 3) * 2 * scores * static_cast<double>(c.dim) / (kFp32Teraflops * 1e9);
    std::printf("%-26s %10.4f %10.4f %7.1f%%\n", c.name, ms, floor_ms, 100 * floor_ms / ms);
    if (json != nullptr) {
      std::fprintf(json, "{\"case\":\"%s\",\"ms\":%.5f,\"fp32_floor_ms\":%.5f,\"share_of_peak\":%.4f}\n",
                   c.name, ms, floor_ms, floor_ms / ms);
    }
  }
  if (json != nullptr) std::fclose(json);
  return 0;
}
