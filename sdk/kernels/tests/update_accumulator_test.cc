#include "foreshock/sdk/update_accumulator.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foreshock::kernels {
namespace {

struct R {
  double r[kPairs];
};
R All(double x) { return {{x, x, x}}; }

TEST(UpdateAccumulator, SumsSingleSteps) {
  UpdateAccumulator a;
  a.Start(All(1).r);
  a.Step(All(1.5).r, 0);
  a.Step(All(1.25).r, 0);
  a.Step(All(1.25).r, 0);
  a.Step(All(2.25).r, 0);
  const UpdateSums s = a.Take();
  EXPECT_EQ(s.n, 4u);
  EXPECT_EQ(s.sum_c[1], 1.25);
  EXPECT_EQ(s.sum_abs_c[1], 1.75);
  EXPECT_EQ(s.sum_sign[1], 1);  // + - 0 +
  EXPECT_EQ(s.nonzero[1], 3u);
  EXPECT_FALSE(s.rotated[1]);
}

TEST(UpdateAccumulator, TakeStartsTheNextWindowWithoutLosingAStep) {
  UpdateAccumulator a;
  a.Start(All(0).r);
  a.Step(All(1).r, 0);
  EXPECT_EQ(a.Take().sum_c[0], 1);
  EXPECT_EQ(a.Take().n, 0u);
  a.Step(All(3).r, 0);
  const UpdateSums s = a.Take();
  EXPECT_EQ(s.n, 1u);
  EXPECT_EQ(s.sum_c[0], 2);
}

TEST(UpdateAccumulator, DecoupledDecayIsAddedBack) {
  UpdateAccumulator a;
  a.Start(All(10).r);
  // Weights only shrink by lr * lambda = 0.01: the update itself is zero.
  a.Step(All(9.9).r, 0.01);
  const UpdateSums s = a.Take();
  EXPECT_NEAR(s.sum_c[0], 0, 1e-12);
  a.Step(All(9.9).r, 0.01);
  EXPECT_NEAR(a.Take().sum_c[0], 0.099, 1e-12);
}

// The two pairs see different r: taking one from the other would look like growth.
TEST(UpdateAccumulator, RefreshUsesEachPairForItsOwnDifferences) {
  UpdateAccumulator a;
  a.Start(All(1).r);
  a.Step(All(1.1).r, 0);
  const double match[kPairs] = {0.99, 0.7, 0.69};
  a.Refresh(All(1.2).r, 0, All(5).r, match);
  a.Step(All(5.1).r, 0);
  const UpdateSums s = a.Take();
  EXPECT_EQ(s.n, 3u);
  EXPECT_NEAR(s.sum_c[0], 0.3, 1e-12);
  EXPECT_FALSE(s.rotated[0]);
  EXPECT_FALSE(s.rotated[1]);
  EXPECT_TRUE(s.rotated[2]);
  EXPECT_FALSE(a.Take().rotated[2]) << "the mark belongs to one window";
}

TEST(UpdateAccumulator, ANanMatchIsRotated) {
  UpdateAccumulator a;
  a.Start(All(1).r);
  const double match[kPairs] = {NAN, 1, 1};
  a.Refresh(All(1).r, 0, All(1).r, match);
  EXPECT_TRUE(a.sums().rotated[0]);
  EXPECT_FALSE(a.sums().rotated[1]);
}

TEST(UpdateAccumulator, SkippedStepsAreLeftOut) {
  UpdateAccumulator a;
  a.Start(All(1).r);
  a.Skip();
  a.Step(All(2).r, 0);
  a.Skip();
  const UpdateSums s = a.Take();
  EXPECT_EQ(s.n, 1u);
  EXPECT_EQ(s.skipped, 2u);
  EXPECT_EQ(s.sum_sign[0], 1);
}

TEST(UpdateAccumulator, MissingIsNotZero) {
  UpdateAccumulator a;
  EXPECT_FALSE(a.sums().HasProjection());
  a.Start(All(1).r);
  EXPECT_FALSE(a.sums().HasProjection());
  a.Step(All(1).r, 0);  // c = 0
  EXPECT_TRUE(a.sums().HasProjection());
  EXPECT_FALSE(a.sums().HasSignMean(0));
  EXPECT_FALSE(a.sums().HasDriftRatio(0));
  a.Step(All(2).r, 0);
  EXPECT_TRUE(a.sums().HasSignMean(0));
  EXPECT_TRUE(a.sums().HasDriftRatio(0));
}

TEST(UpdateAccumulator, NanIsAValueAndPasses) {
  UpdateAccumulator a;
  a.Start(All(1).r);
  a.Step(All(NAN).r, 0);
  EXPECT_TRUE(a.sums().HasSignMean(0) && a.sums().HasDriftRatio(0));
  UpdateSums s = a.Take();
  EXPECT_TRUE(std::isnan(s.sum_c[0]) && std::isnan(s.sum_abs_c[0]) && std::isnan(s.sum_sign[0]));
  a.Step(All(2).r, 0);  // from NaN: still unknown
  EXPECT_TRUE(std::isnan(a.Take().sum_c[0]));
  a.Step(All(3).r, 0);
  EXPECT_EQ(a.Take().sum_c[0], 1);
}

TEST(UpdateAccumulator, StepsBeforeStartOnlyStart) {
  UpdateAccumulator a;
  a.Step(All(7).r, 0);
  EXPECT_TRUE(a.started());
  EXPECT_EQ(a.sums().n, 0u);
  a.Invalidate();
  EXPECT_FALSE(a.started());
  a.Refresh(All(9).r, 0, All(3).r, nullptr);
  a.Step(All(4).r, 0);
  EXPECT_EQ(a.Take().sum_c[0], 1);
}

// A fair walk has no direction: single steps tell, the difference over the window would not.
TEST(UpdateAccumulator, AFairWalkIsNotCoherent) {
  UpdateAccumulator a;
  a.Start(All(0).r);
  double r = 0;
  uint64_t state = 1;
  for (int i = 0; i < 10000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    r += (state >> 63) != 0 ? 1 : -1;
    a.Step(All(r).r, 0);
  }
  const UpdateSums s = a.Take();
  EXPECT_LE(std::abs(s.sum_sign[0] / s.n), 0.05);
  EXPECT_LE(std::abs(s.sum_c[0] / s.sum_abs_c[0]), 0.05);
}

}  // namespace
}  // namespace foreshock::kernels
