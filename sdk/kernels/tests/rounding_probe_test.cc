#include "rounding_conformance.h"

namespace foreshock::kernels {
namespace {

struct CpuRounding {
  static bool Present() { return true; }
  static std::vector<RoundingHeadStats> Run(const RoundingProblem& p, KernelStatus* status = nullptr) {
    return RunRounding(p, status);
  }
  static KernelStatus WithoutWorkspace(const RoundingProblem& p) {
    RoundingHeadStats out;
    return ProbeRounding(p, &out, {});
  }
  static constexpr double kTolerance = 1e-9;
  static constexpr double kExactOutput = 1e-6;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Cpu, RoundingConformance, CpuRounding);

TEST(RatioSums, MergeIsTheSameAsOneSum) {
  RatioSums all, a, b;
  for (int i = 0; i < 20; ++i) {
    const double n = std::sin(i), d = 2 + std::cos(i);
    all.Add(n, d);
    (i < 7 ? a : b).Add(n, d);
  }
  a.Merge(b);
  EXPECT_NEAR(a.Value(), all.Value(), 1e-15);
  EXPECT_NEAR(a.StandardError(), all.StandardError(), 1e-15);
  RatioSums one;
  EXPECT_FALSE(one.HasValue());
  one.Add(1, 2);
  EXPECT_TRUE(std::isnan(one.StandardError()));
}

}  // namespace
}  // namespace foreshock::kernels
