#include "foreshock/cli/loss_outcome.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foreshock::cli {
namespace {

// `count` samples of one loss, ten steps apart.
void Feed(LossOutcome* outcome, int64_t* step, int count, double loss) {
  for (int i = 0; i < count; ++i, *step += 10) outcome->Add(*step, loss);
}

TEST(LossOutcome, CollapseIsTheStartOfTheStretchThatLasts) {
  LossOutcome outcome;
  int64_t step = 0;
  Feed(&outcome, &step, 1, 5.5);
  Feed(&outcome, &step, 100, 1.7);
  EXPECT_TRUE(outcome.learned());
  EXPECT_FALSE(outcome.collapse_step());
  const int64_t rises_at = step;
  Feed(&outcome, &step, 50, 3.7);
  // 2 nats higher: an average of 0.1 has risen by 0.542 after three samples.
  EXPECT_EQ(outcome.collapse_step(), rises_at + 20);
}

TEST(LossOutcome, ASpikeThatRecoversIsNone) {
  LossOutcome outcome;
  int64_t step = 0;
  Feed(&outcome, &step, 1, 5.5);
  Feed(&outcome, &step, 100, 1.7);
  Feed(&outcome, &step, 10, 7.0);
  EXPECT_TRUE(outcome.collapse_step()) << "as long as it lasts it looks like one";
  Feed(&outcome, &step, 60, 1.7);
  EXPECT_FALSE(outcome.collapse_step());
}

TEST(LossOutcome, ARunThatNeverLearnedCannotCollapse) {
  LossOutcome outcome;
  int64_t step = 0;
  Feed(&outcome, &step, 50, 5.5);
  Feed(&outcome, &step, 50, 9.0);
  EXPECT_FALSE(outcome.learned());
  EXPECT_FALSE(outcome.collapse_step());
}

TEST(LossOutcome, NotFiniteCountsAsAboveAndDoesNotPoisonTheAverage) {
  LossOutcome outcome;
  int64_t step = 0;
  Feed(&outcome, &step, 1, 5.5);
  Feed(&outcome, &step, 100, 1.7);
  const int64_t at = step;
  Feed(&outcome, &step, 1, NAN);
  EXPECT_EQ(outcome.collapse_step(), at);
  EXPECT_NEAR(*outcome.smoothed(), 1.7, 0.01);
  Feed(&outcome, &step, 1, 1.7);
  EXPECT_FALSE(outcome.collapse_step());
}

TEST(LossOutcome, NothingButNotFinite) {
  LossOutcome outcome;
  outcome.Add(0, NAN);
  outcome.Add(10, INFINITY);
  EXPECT_FALSE(outcome.smoothed());
  EXPECT_FALSE(outcome.collapse_step());
  EXPECT_EQ(outcome.last_step(), 10);
}

}  // namespace
}  // namespace foreshock::cli
