#include "foreshock/sdk/saturation_trigger.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace foreshock::sdk {
namespace {

class TriggerTest : public ::testing::Test {
 protected:
  static constexpr size_t kHeads = 8;

  // One sample; calm heads have logits about `level` and 1 % of their rows saturated.
  bool Sample(double level, double saturated, double head_level, double head_saturated) {
    std::vector<HeadReading> heads(kHeads);
    for (size_t h = 0; h < kHeads; ++h) {
      const double noise = std::exp(0.05 * normal_(random_));
      heads[h] = {true, (h == 3 ? head_saturated : saturated) * noise, (h == 3 ? head_level : level) * noise};
    }
    trigger_.Observe(heads, &triggered_);
    for (size_t h = 0; h < kHeads; ++h) {
      if (triggered_[h] && h != 3) ADD_FAILURE() << "head " << h << " triggered";
    }
    return triggered_[3] != 0;
  }
  void Settle(double level = 20) {
    for (int i = 0; i < 40; ++i) ASSERT_FALSE(Sample(level, 0.01, level, 0.01));
  }

  std::mt19937 random_{7};
  std::normal_distribution<double> normal_;
  SaturationTrigger trigger_{kHeads};
  std::vector<uint8_t> triggered_ = std::vector<uint8_t>(kHeads);
};

TEST_F(TriggerTest, ThreeSamplesAboveBothBaselinesTrigger) {
  Settle();
  EXPECT_FALSE(Sample(20, 0.01, 60, 0.3));
  EXPECT_FALSE(Sample(20, 0.01, 70, 0.3));
  EXPECT_TRUE(Sample(20, 0.01, 80, 0.4));
}

// By 6 % a sample, and rows saturate late: by then most of the baseline has grown as steadily as the head.
TEST_F(TriggerTest, ASteadyGrowthDoesNotHideInItsOwnBaseline) {
  Settle(100);
  double logit = 100;
  while (logit < 50'000 && !Sample(100, 0.01, logit, logit < 1'000 ? 0.01 : 0.5)) logit *= 1.06;
  EXPECT_LT(logit, 1'500);
}

// Four deviations above the median would be more rows than there are.
TEST_F(TriggerTest, AHeadWhoseSaturationVariesWidelyCanStillTrigger) {
  for (int i = 0; i < 40; ++i) {
    ASSERT_FALSE(Sample(100, 0.01, 100, i % 2 == 0 ? 0.3 : 0.7));
  }
  EXPECT_FALSE(Sample(100, 0.01, 900, 0.99 / 1.2));
  for (int i = 0; i < 2; ++i) Sample(100, 0.01, 2'000, 1.0);
  EXPECT_TRUE(Sample(100, 0.01, 4'000, 1.0));
}

TEST_F(TriggerTest, ABreakInBetweenStartsAnew) {
  Settle();
  Sample(20, 0.01, 60, 0.3);
  Sample(20, 0.01, 60, 0.3);
  Sample(20, 0.01, 20, 0.01);
  EXPECT_FALSE(Sample(20, 0.01, 60, 0.3));
}

TEST_F(TriggerTest, GrowthWithoutSaturationAndSaturationWithoutGrowthDoNot) {
  Settle();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Sample(20, 0.01, 80, 0.01)) << i;
  SetUp();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Sample(20, 0.01, 20, 0.4)) << i;
}

TEST_F(TriggerTest, AModestRiseOfAllHeadsIsNotARunaway) {
  Settle();
  for (double level = 20; level < 60; level *= 1.1) EXPECT_FALSE(Sample(level, 0.5, level, 0.5)) << level;
}

TEST_F(TriggerTest, AFaultInAllHeadsLiftsTheMedianAsWell) {
  Settle();
  std::vector<HeadReading> heads(kHeads, HeadReading{true, 0.4, 90});
  for (int i = 0; i < 3; ++i) trigger_.Observe(heads, &triggered_);
  for (size_t h = 0; h < kHeads; ++h) EXPECT_TRUE(triggered_[h]) << h;
}

TEST_F(TriggerTest, HeadsThatLiveAtTwoThousandAreTheirOwnBaseline) {
  for (int i = 0; i < 60; ++i) EXPECT_FALSE(Sample(200, 0.5, 2000, 0.95)) << i;
}

TEST_F(TriggerTest, NothingBeforeTheBaselineHasSettled) {
  for (int i = 0; i < 15; ++i) Sample(20, 0.01, 20, 0.01);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(Sample(20, 0.01, 500, 0.9));
}

TEST_F(TriggerTest, NanIsExcessiveAndDoesNotPoisonTheBaseline) {
  Settle();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(Sample(20, 0.01, nan, nan));
  EXPECT_FALSE(Sample(20, 0.01, nan, nan));
  EXPECT_TRUE(Sample(20, 0.01, nan, nan));
  EXPECT_FALSE(Sample(20, 0.01, 20, 0.01));
  EXPECT_FALSE(Sample(20, 0.01, 60, 0.3));
  EXPECT_FALSE(Sample(20, 0.01, 60, 0.3));
  EXPECT_TRUE(Sample(20, 0.01, 60, 0.3));
}

TEST_F(TriggerTest, SavedAndRestoredItDecidesTheSame) {
  Settle();
  Sample(20, 0.01, 60, 0.3);
  SaturationTrigger copy(kHeads);
  for (size_t h = 0; h < kHeads; ++h) copy.Restore(h, trigger_.Save(h));
  trigger_ = copy;
  EXPECT_FALSE(Sample(20, 0.01, 60, 0.3));
  EXPECT_TRUE(Sample(20, 0.01, 60, 0.3)) << "the streak survives as well";
}

TEST_F(TriggerTest, RestartForgetsTheBaseline) {
  Settle();
  trigger_.Restart(3);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Sample(20, 0.01, 200, 0.8)) << i;
}

}  // namespace
}  // namespace foreshock::sdk
