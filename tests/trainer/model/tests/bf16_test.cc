#include "foreshock/trainer/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace foreshock::trainer {
namespace {

TEST(Bf16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(round_to_bf16(1.0f), 1.0f);
  EXPECT_EQ(round_to_bf16(1.0f + 0x1p-8f), 1.0f);                // a tie, down to even
  EXPECT_EQ(round_to_bf16(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f);  // a tie, up to even
  EXPECT_EQ(round_to_bf16(1.0f + 0x1.02p-8f), 1.0f + 0x1p-7f);
  EXPECT_EQ(round_to_bf16(-1.0f - 0x1.02p-8f), -1.0f - 0x1p-7f);
  EXPECT_TRUE(std::isnan(round_to_bf16(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(round_to_bf16(-std::numeric_limits<float>::infinity()), -std::numeric_limits<float>::infinity());
}

TEST(Bf16, StepsAwayFromZeroByExactlyTheUlpsAsked) {
  EXPECT_EQ(step_away_from_zero(1.0f, 1), 1.0f + 0x1p-7f);
  EXPECT_EQ(step_away_from_zero(-1.0f, 3), -1.0f - 3 * 0x1p-7f);
  EXPECT_EQ(step_away_from_zero(1.0f, 128), 2.0f);                // a whole binade
  EXPECT_EQ(step_away_from_zero(1.0f, 130), 2.0f + 2 * 0x1p-6f);  // then ulp double
  EXPECT_EQ(step_away_from_zero(2.0f, -1), 2.0f - 0x1p-7f);
}

TEST(Bf16, LeavesZeroInfinityAndNanAndStopsAtTheLargest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = 0x1.fep127f;
  EXPECT_EQ(step_away_from_zero(0.0f, 32), 0.0f);
  EXPECT_TRUE(std::signbit(step_away_from_zero(-0.0f, 32)));
  EXPECT_EQ(step_away_from_zero(kInfinity, 32), kInfinity);
  EXPECT_TRUE(std::isnan(step_away_from_zero(std::numeric_limits<float>::quiet_NaN(), 32)));
  EXPECT_EQ(step_away_from_zero(kLargest, 1), kLargest);
  EXPECT_EQ(step_away_from_zero(-kLargest, 32), -kLargest);
  EXPECT_EQ(step_away_from_zero(0x1p-133f, -2), 0.0f);
}

}  // namespace
}  // namespace foreshock::trainer
