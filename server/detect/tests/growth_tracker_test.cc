#include "growth_tracker.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace foreshock::detect {
namespace {

constexpr size_t kHeads = 8;

// log of a power of the run's age, a little different from head to head and from step to step.
std::vector<double> PowerLaw(int64_t step, double exponent) {
  std::vector<double> logs;
  for (size_t head = 0; head < kHeads; ++head) {
    const double wobble = 0.01 * std::sin(0.7 * static_cast<double>(step) + 1.9 * static_cast<double>(head));
    logs.push_back(exponent * std::log(1 + static_cast<double>(step) / 300) + wobble);
  }
  return logs;
}

double TopScore(const GrowthTracker& tracker) {
  double top = 0;
  for (size_t head = 0; head < tracker.heads(); ++head) top = std::max(top, tracker.score(head));
  return top;
}

TEST(GrowthTracker, PowerLawGrowthScoresLowAtAnyExponentAndAge) {
  for (const double exponent : {0.3, 0.8, 2.0}) {
    GrowthTracker tracker(kHeads);
    double top = 0;
    for (int64_t step = 0; step < 200'000; step += 200) {
      tracker.Update(step, PowerLaw(step, exponent));
      top = std::max(top, TopScore(tracker));
    }
    EXPECT_LT(top, 0.6) << exponent;
  }
}

TEST(GrowthTracker, ExponentialGrowthOfOneHeadScoresHighWhateverTheAge) {
  for (const int64_t onset : {1000, 20'000, 150'000}) {
    GrowthTracker tracker(kHeads);
    int64_t seen = -1;
    for (int64_t step = 0; step < onset + 1500 && seen < 0; step += 20) {
      auto logs = PowerLaw(step, 0.4);
      if (step > onset) logs[5] += static_cast<double>(step - onset) / 400;
      tracker.Update(step, logs);
      if (tracker.score(5) >= 1) seen = step;
    }
    ASSERT_GE(seen, 0) << onset;
    EXPECT_LT(seen, onset + 900) << onset;
  }
}

TEST(GrowthTracker, NotReadyBeforeThreeWindows) {
  GrowthTracker tracker(kHeads);
  for (int64_t step = 0; step < 600; step += 10) {
    tracker.Update(step, PowerLaw(step, 0.4));
    EXPECT_FALSE(tracker.ready()) << step;
  }
  tracker.Update(600, PowerLaw(600, 0.4));
  EXPECT_TRUE(tracker.ready());
}

TEST(GrowthTracker, MissingHeadsScoreZeroAndLeaveTheOthersAlone) {
  GrowthTracker tracker(kHeads);
  for (int64_t step = 0; step < 2000; step += 20) {
    auto logs = PowerLaw(step, 0.4);
    logs[1] = std::numeric_limits<double>::quiet_NaN();
    if (step > 1200) logs[5] += static_cast<double>(step - 1200) / 300;
    tracker.Update(step, logs);
  }
  EXPECT_EQ(tracker.score(1), 0);
  EXPECT_GT(tracker.score(5), 1);
}

TEST(GrowthTracker, OneHeadIsMeasuredAgainstItself) {
  GrowthTracker tracker(1);
  double before = 0;
  for (int64_t step = 0; step < 2400; step += 20) {
    const double growth = step > 1200 ? static_cast<double>(step - 1200) / 200 : 0;
    const std::vector<double> logs = {0.3 * std::log(1.0 + static_cast<double>(step) / 300) + growth +
                                      0.01 * std::sin(static_cast<double>(step))};
    tracker.Update(step, logs);
    if (step <= 1200) before = std::max(before, tracker.score(0));
  }
  EXPECT_LT(before, 0.7);
  EXPECT_GT(tracker.score(0), 1);
}

}  // namespace
}  // namespace foreshock::detect
