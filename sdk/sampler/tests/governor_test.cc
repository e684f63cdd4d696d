#include "foreshock/sdk/governor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foreshock::sdk {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

// Steps of `step_ns` with a sample costing `sample_ns` on the governor's own grid and projections costing
// `projection_ns`; returns the share of time spent over the last half.
struct Simulation {
  Governor governor;
  uint32_t interval;
  int64_t step_ns, sample_ns, projection_ns;
  int64_t t = 0;

  double Run(int64_t steps) {
    double own_sum = 0, total_sum = 0;
    const int64_t end = t + steps;
    for (const int64_t half = t + steps / 2; t < end; ++t) {
      const bool sampled = t % (static_cast<int64_t>(interval) * governor.sample_factor()) == 0;
      const bool tracked = t % governor.projection_factor() == 0;
      const int64_t readings = governor.projection_factor() > 1 ? 2 : 1;
      const int64_t own = (sampled ? sample_ns : 0) + (tracked ? readings * projection_ns : 0);
      governor.EndStep(sampled, tracked, step_ns + own, own);
      if (t >= half) own_sum += static_cast<double>(own), total_sum += static_cast<double>(step_ns + own);
    }
    return own_sum / total_sum;
  }
};

TEST(GovernorTest, ACheapProbeIsNotStretched) {
  Simulation s{Governor(0.004, 10), 10, 100 * kMillisecond, kMillisecond, 50'000};
  EXPECT_LE(s.Run(1000), 0.004);
  EXPECT_EQ(s.governor.sample_factor(), 1u);
  EXPECT_EQ(s.governor.projection_factor(), 1u);
}

TEST(GovernorTest, ExpensiveSamplesAreStretchedByAPowerOfTwoUntilTheyFit) {
  // 20 ms a sample every 10 steps of 100 ms would be 2 %.
  Simulation s{Governor(0.004, 10), 10, 100 * kMillisecond, 20 * kMillisecond, 10'000};
  EXPECT_LE(s.Run(4000), 0.004);
  EXPECT_EQ(s.governor.sample_factor(), 8u) << "2 % over 8 is 0.25 %, over 4 it would be 0.5 %";
  EXPECT_EQ(s.governor.projection_factor(), 1u);
}

TEST(GovernorTest, ExpensiveProjectionsAreStretchedToHalfTheBudget) {
  Simulation s{Governor(0.004, 10), 10, 10 * kMillisecond, 100'000, 100'000};  // 1 % of every step
  EXPECT_LE(s.Run(8000), 0.004);
  const uint32_t factor = s.governor.projection_factor();
  EXPECT_GE(factor, 10u) << "two readings a counted step: 2 % over 10 is half the budget";
  EXPECT_EQ(factor & (factor - 1), 0u) << "a power of 2, so that ranks' grids nest";
}

TEST(GovernorTest, FallsAgainWhenStepsGrowLonger) {
  Simulation s{Governor(0.004, 10), 10, 10 * kMillisecond, 2 * kMillisecond, 1'000};
  s.Run(4000);
  EXPECT_GE(s.governor.sample_factor(), 8u);
  s.step_ns = 1000 * kMillisecond;
  s.Run(20000);
  EXPECT_EQ(s.governor.sample_factor(), 1u);
}

TEST(GovernorTest, ABudgetOfOneNeverStretches) {
  Simulation s{Governor(1, 10), 10, kMillisecond, 100 * kMillisecond, 10 * kMillisecond};
  s.Run(1000);
  EXPECT_EQ(s.governor.sample_factor(), 1u);
  EXPECT_EQ(s.governor.projection_factor(), 1u);
}

TEST(GovernorTest, TheFirstSamplesWhichAllocateDoNotCount) {
  Governor governor(0.004, 10);
  governor.EndStep(true, true, 1000 * kMillisecond, 900 * kMillisecond);
  governor.EndStep(true, true, 1000 * kMillisecond, 900 * kMillisecond);
  EXPECT_EQ(governor.sample_factor(), 1u);
  governor.EndStep(true, true, 1000 * kMillisecond, 900 * kMillisecond);
  EXPECT_GT(governor.sample_factor(), 1u);
}

TEST(GovernorTest, ClocksThatGoBackAreNoReasonToPanic) {
  Governor governor(0.004, 1, 0);
  for (int i = 0; i < 100; ++i) governor.EndStep(true, true, -5, -7);
  EXPECT_GE(governor.share(), 0);
  EXPECT_LE(governor.sample_factor(), Governor::kMaxFactor);
}

// The device's own records say three times of what the events said: all is taken for that much dearer.
TEST(GovernorTest, WhatIsMeasuredFromOutsideStretches) {
  Simulation s{Governor(0.004, 10), 10, 100 * kMillisecond, 3 * kMillisecond / 2, 1'000};
  s.Run(1000);
  ASSERT_EQ(s.governor.sample_factor(), 1u) << "1.5 ms of a second are within the budget";
  for (int window = 0; window < 20; ++window) {
    s.governor.Measured(0.009 / s.governor.sample_factor());
    s.Run(300);
  }
  EXPECT_EQ(s.governor.sample_factor(), 4u) << "0.9 % over 4 is 0.23 %";
  // Less than is known of, nonsense and nothing change nothing but this.
  for (int window = 0; window < 40; ++window) {
    s.governor.Measured(0);
    for (const double nonsense : {-1.0, 2.0, std::nan("")}) s.governor.Measured(nonsense);
    s.Run(300);
  }
  EXPECT_EQ(s.governor.sample_factor(), 1u);
}

}  // namespace
}  // namespace foreshock::sdk
