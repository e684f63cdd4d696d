#include "foreshock/trainer/outcome.h"

#include <gtest/gtest.h>

#include <limits>

namespace foreshock::trainer {
namespace {

Outcome learned() {
  Outcome outcome;
  for (int i = 0; i < 60; ++i) outcome.add(i, i == 0 ? 5.5 : 1.7);
  return outcome;
}

TEST(OutcomeTest, CollapseIsWhereTheLastingRiseBegan) {
  Outcome outcome = learned();
  EXPECT_FALSE(outcome.collapse_step());
  for (int i = 60; i < 100; ++i) outcome.add(i, 3.4);
  ASSERT_TRUE(outcome.collapse_step());
  // 1.7 * (1 - 0.9^n) > 0.5 from the 4th sample on.
  EXPECT_EQ(*outcome.collapse_step(), 63);
}

TEST(OutcomeTest, ASpikeThatRecoversIsNoCollapse) {
  Outcome outcome = learned();
  for (int i = 60; i < 70; ++i) outcome.add(i, 3.4);
  EXPECT_TRUE(outcome.collapse_step());
  for (int i = 70; i < 120; ++i) outcome.add(i, 1.7);
  EXPECT_FALSE(outcome.collapse_step());
}

TEST(OutcomeTest, ARunThatNeverLearnedDoesNotCollapse) {
  Outcome outcome;
  for (int i = 0; i < 50; ++i) outcome.add(i, i < 25 ? 5.5 : 7.0);
  EXPECT_FALSE(outcome.collapse_step());
}

TEST(OutcomeTest, ALossThatIsNotFiniteCountsAsAbove) {
  Outcome outcome = learned();
  outcome.add(60, std::numeric_limits<double>::quiet_NaN());
  ASSERT_TRUE(outcome.collapse_step());
  EXPECT_EQ(*outcome.collapse_step(), 60);
  EXPECT_LT(outcome.smoothed(), 2);
  outcome.add(61, 1.7);
  EXPECT_FALSE(outcome.collapse_step());
}

}  // namespace
}  // namespace foreshock::trainer
