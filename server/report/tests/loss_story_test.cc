#include "loss_story.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foreshock::report {
namespace {

// From 4 down to 2 in a hundred steps, then as told.
std::vector<Point> Learned(const std::vector<float>& then) {
  std::vector<Point> loss;
  for (int i = 0; i < 100; ++i) loss.push_back({i, 4 - 0.02f * static_cast<float>(i)});
  for (const float value : then) loss.push_back({static_cast<int64_t>(loss.size()), value});
  return loss;
}

TEST(TellLoss, ARunThatLearnsDoesNotCollapse) {
  const LossStory story = TellLoss(Learned(std::vector<float>(100, 2)));
  EXPECT_FALSE(story.collapse_step);
  EXPECT_NEAR(*story.best, 2, 0.01);
  EXPECT_EQ(story.last, 2.0f);
}

TEST(TellLoss, ARiseThatStaysIsACollapse) {
  const LossStory story = TellLoss(Learned(std::vector<float>(200, 6)));
  ASSERT_TRUE(story.collapse_step);
  EXPECT_GE(*story.collapse_step, 100);
  EXPECT_LE(*story.collapse_step, 104);
}

TEST(TellLoss, OnlySampledStepsCount) {
  std::vector<float> then;
  for (int i = 0; i < 200; ++i) then.push_back(i % 10 == 0 ? 2 : 9);  // high between the samples
  EXPECT_FALSE(TellLoss(Learned(then), 10).collapse_step);
  EXPECT_TRUE(TellLoss(Learned(then), 1).collapse_step);
}

TEST(TellLoss, ASpikeThatComesBackIsNone) {
  std::vector<float> then(50, 8);
  then.resize(200, 2);
  EXPECT_FALSE(TellLoss(Learned(then)).collapse_step);
}

TEST(TellLoss, NanToTheEndIsACollapseAndNanOnceIsNot) {
  EXPECT_EQ(TellLoss(Learned(std::vector<float>(50, std::nanf("")))).collapse_step, 100);
  std::vector<float> then(50, 2);
  then[10] = std::nanf("");
  EXPECT_FALSE(TellLoss(Learned(then)).collapse_step);
}

TEST(TellLoss, ARunThatNeverLearnedDoesNotCollapse) {
  std::vector<Point> loss;
  for (int i = 0; i < 300; ++i) loss.push_back({i, i < 10 ? 5.4f : 6.0f});
  EXPECT_FALSE(TellLoss(loss).collapse_step);
  EXPECT_FALSE(TellLoss({}).last);
}

TEST(Thin, KeepsExtremesEndsAndOrder) {
  std::vector<Point> points;
  for (int i = 0; i < 10'000; ++i) points.push_back({i, 1});
  points[1234].value = 99;
  points[5678].value = -99;
  points[7777].value = std::nanf("");
  const auto thin = Thin(points, 400);
  EXPECT_LE(thin.size(), 400u);
  bool high = false, low = false, nan = false;
  for (size_t i = 0; i < thin.size(); ++i) {
    EXPECT_TRUE(i == 0 || thin[i - 1].step < thin[i].step);
    high = high || thin[i].value == 99;
    low = low || thin[i].value == -99;
    nan = nan || std::isnan(thin[i].value);
  }
  EXPECT_TRUE(high && low && nan);
  EXPECT_EQ(thin.front().step, 0);
  EXPECT_EQ(thin.back().step, 9999);
}

}  // namespace
}  // namespace foreshock::report
