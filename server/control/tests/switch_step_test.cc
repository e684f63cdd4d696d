#include "switch_step.h"

#include <gtest/gtest.h>

#include <limits>

namespace foreshock::control {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kSecond = 1'000'000'000;

store::AttemptInfo TwoRanks() {
  store::AttemptInfo attempt;
  attempt.world_size = 2;
  attempt.sources.resize(2);
  for (store::SourceInfo& source : attempt.sources) {
    source.first_step = 0;
    source.last_step = 100;
    source.first_unix_ns = 1'700'000'000 * kSecond;
    source.last_unix_ns = source.first_unix_ns + 10 * kSecond;
    source.last_sent_unix_ns = source.last_unix_ns;
  }
  return attempt;
}

TEST(SwitchStep, IsAsFarAheadAsTheRanksGoMeanwhile) {
  const store::AttemptInfo attempt = TwoRanks();
  const int64_t now = attempt.sources[0].last_unix_ns;
  EXPECT_EQ(SwitchStep(attempt, 0, now), 200);
  EXPECT_EQ(SwitchStep(attempt, 5000, now), 5000);
}

// Steps and times come from senders and archives.
TEST(SwitchStep, NumbersWithoutSenseDoNotWrap) {
  for (const int64_t step : {kMost, kMost - 5}) {
    store::AttemptInfo attempt = TwoRanks();
    attempt.sources[1].last_step = step;
    EXPECT_GE(SwitchStep(attempt, 0, 0), step);
  }
  store::AttemptInfo attempt = TwoRanks();
  attempt.sources[0].first_step = kLeast;
  attempt.sources[0].first_unix_ns = kLeast;
  attempt.sources[0].last_unix_ns = kMost;
  attempt.sources[0].last_sent_unix_ns = kMost;
  attempt.sources[0].clock_skew_ns = kLeast;
  EXPECT_GE(SwitchStep(attempt, 0, kLeast), 100);
  EXPECT_GE(SwitchStep(attempt, 0, kMost), 100);
}

}  // namespace
}  // namespace foreshock::control
