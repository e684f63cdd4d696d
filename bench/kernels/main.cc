// Times the CPU kernels on one core: medians over repeats of the process's CPU time, per call, so that a busy
// machine misleads little. Usage: bench_kernels [seconds per case]
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "foreshock/sdk/attention_probe.h"
#include "foreshock/sdk/rounding_probe.h"
#include "foreshock/sdk/weight_probe.h"

namespace {

using namespace foreshock::kernels;  // NOLINT: a program of one file

double g_seconds = 0.5;

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void Time(const std::string& name, double multiply_adds, const std::function<void()>& call) {
  std::vector<double> us;
  const double end = CpuSeconds() + g_seconds;
  while (us.size() < 5 || CpuSeconds() < end) {
    const double start = CpuSeconds();
    call();
    us.push_back(1e6 * (CpuSeconds() - start));
  }
  std::nth_element(us.begin(), us.begin() + static_cast<int64_t>(us.size() / 2), us.end());
  const double median = us[us.size() / 2];
  std::printf("%-64s %10.1f us %6.2f GFMA/s %7zu runs\n", name.c_str(), median, multiply_adds / median / 1e3,
              us.size());
}

std::vector<Bf16> RandomBf16(int64_t count, float size) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, size);
  std::vector<Bf16> out(static_cast<size_t>(count));
  for (Bf16& x : out) x = ToBf16(normal(random));
  return out;
}

std::vector<float> RandomFloat(int64_t count, float size) {
  std::vector<float> out;
  for (Bf16 x : RandomBf16(count, size)) out.push_back(ToFloat(x));
  return out;
}

void Weights(const std::string& name, int layers, int heads, int64_t d_model, int64_t d_head) {
  const std::vector<float> w = RandomFloat(2 * layers * heads * d_model * d_head, 0.02f);
  std::vector<WeightView> wq, wk;
  for (int h = 0; h < layers * heads; ++h) {
    wq.push_back(HeadOfProjection(w.data(), DType::kFp32, ProjectionLayout::kLinear, d_model,
                                  2 * layers * heads, h, d_head));
    wk.push_back(HeadOfProjection(w.data(), DType::kFp32, ProjectionLayout::kLinear, d_model,
                                  2 * layers * heads, layers * heads + h, d_head));
  }
  const auto n = static_cast<int32_t>(wq.size());
  const WeightSet set{wq.data(), n, wk.data(), n, nullptr};
  std::vector<HeadSpectrum> q(wq.size()), k(wk.size());
  std::vector<double> qk(wq.size()), r(wq.size() * kPairs);
  const auto pairs = static_cast<size_t>(n) * kPairs;
  std::vector<float> uq(pairs * static_cast<size_t>(d_model)), vq(pairs * static_cast<size_t>(d_head)),
      uk = uq, vk = vq;
  std::vector<unsigned char> scratch(ProbeWeightsWorkspaceBytes(set));
  const double elements = static_cast<double>(n * d_model * d_head);
  Time(name + " spectra, all q and k heads", elements * static_cast<double>(d_head), [&] {
    if (ProbeWeights(set, {q.data(), k.data(), qk.data(), uq.data(), vq.data(), uk.data(), vk.data()},
                     {scratch.data(), scratch.size()}) != KernelStatus::kOk) {
      std::abort();
    }
  });
  Time(name + " update projections, all q and k heads", 2 * elements * kPairs, [&] {
    if (ProjectPairs(wq.data(), n, uq.data(), d_model, vq.data(), d_head, r.data()) != KernelStatus::kOk)
      std::abort();
    if (ProjectPairs(wk.data(), n, uk.data(), d_model, vk.data(), d_head, r.data()) != KernelStatus::kOk)
      std::abort();
  });
}

void Attention(const std::string& name, int64_t batch, int64_t heads, int64_t seq, int64_t dim,
               int32_t every) {
  const int64_t elements = batch * heads * seq * dim;
  const std::vector<Bf16> data = RandomBf16(5 * elements, 1);
  const auto view = [&](int i) {
    return Bshd(data.data() + i * elements, DType::kBf16, batch, seq, heads, dim);
  };
  const std::vector<float> dq = RandomFloat(elements, 1e-3f);
  RoundingProblem p;
  p.attention.q = view(0);
  p.attention.k = view(1);
  p.attention.causal = true;
  p.attention.scale = 1 / std::sqrt(static_cast<float>(dim));
  p.attention.sampling.row_every = every;
  p.v = view(2);
  p.o = view(3);
  p.d_o = view(4);
  p.dq = Bshd(dq.data(), DType::kFp32, batch, seq, heads, dim);
  std::vector<AttentionHeadStats> stats(static_cast<size_t>(heads));
  std::vector<RoundingHeadStats> rounding(static_cast<size_t>(heads));
  std::vector<unsigned char> scratch(
      std::max(ProbeAttentionWorkspaceBytes(p.attention), ProbeRoundingWorkspaceBytes(p)));
  const Workspace workspace{scratch.data(), scratch.size()};
  const double scores = static_cast<double>(batch * heads * seq * seq / 2 / every);
  const std::string rows = ", 1 row in " + std::to_string(every);
  Time(name + " attention" + rows, scores * static_cast<double>(dim), [&] {
    if (ProbeAttention(p.attention, stats.data(), workspace) != KernelStatus::kOk) std::abort();
  });
  Time(name + " rounding" + rows, 5 * scores * static_cast<double>(dim), [&] {
    if (ProbeRounding(p, rounding.data(), workspace) != KernelStatus::kOk) std::abort();
  });
}

}  // namespace

int main(int argc, char** argv) {
#ifndef NDEBUG
  std::fprintf(stderr, "bench_kernels: not an optimised build, its figures would mislead\n");
  return 2;
#endif
  if (argc > 1) g_seconds = std::atof(argv[1]);
  Weights("2 layers x 4 heads, 64 x 16:", 2, 4, 64, 16);
  Attention("8 x 64 tokens, 4 heads of 16 (one layer):", 8, 4, 64, 16, 8);
  Attention("8 x 64 tokens, 4 heads of 16 (one layer):", 8, 4, 64, 16, 1);
  Weights("1 layer x 12 heads, 768 x 64:", 1, 12, 768, 64);
  Weights("1 layer x 4 heads, 4096 x 128:", 1, 4, 4096, 128);
  Attention("1 x 1024 tokens, 12 heads of 64:", 1, 12, 1024, 64, 8);
  Attention("1 x 1024 tokens, 4 heads of 128:", 1, 4, 1024, 128, 8);
  return 0;
}
