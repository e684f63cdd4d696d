#include "foreshock/cli/growth.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foreshock::cli {
namespace {

std::vector<HeadSample> Heads(double a, double b, double c) { return {{0, 0, a}, {0, 1, b}, {1, 0, c}}; }

TEST(GrowthTracker, NeedsSomethingToCompareWith) {
  GrowthTracker tracker;
  EXPECT_FALSE(tracker.Add(Heads(1, 1, 1)));
  EXPECT_FALSE(GrowthTracker().Add({}));
}

TEST(GrowthTracker, NamesTheHeadThatLeavesTheOthers) {
  GrowthTracker tracker;
  tracker.Add(Heads(1, 2, 4));
  const auto top = tracker.Add(Heads(2, 12, 8));
  ASSERT_TRUE(top);
  EXPECT_EQ(top->layer, 0u);
  EXPECT_EQ(top->head, 1u);
  EXPECT_EQ(top->value, 12);
  EXPECT_DOUBLE_EQ(top->factor, 3) << "6 times, while the median head doubled";
}

TEST(GrowthTracker, ForgetsWhatIsFarBack) {
  GrowthTracker tracker(2);
  tracker.Add(Heads(1, 1, 1));
  tracker.Add(Heads(8, 1, 1));
  tracker.Add(Heads(8, 1, 1));
  const auto top = tracker.Add(Heads(8, 1, 1));
  ASSERT_TRUE(top);
  EXPECT_DOUBLE_EQ(top->factor, 1);
}

TEST(GrowthTracker, AHeadThatIsNotFiniteIsReportedAtOnce) {
  GrowthTracker tracker;
  const auto top = tracker.Add(Heads(1, NAN, 1));
  ASSERT_TRUE(top);
  EXPECT_EQ(top->head, 1u);
  EXPECT_TRUE(std::isinf(top->factor));
  EXPECT_FALSE(tracker.Add(Heads(1, 1, 1))) << "and is no reference afterwards";
}

TEST(GrowthTracker, ZerosAndNewHeadsAreLeftOut) {
  GrowthTracker tracker;
  tracker.Add(Heads(0, 1, 1));
  const std::vector<HeadSample> next = {{0, 0, 5}, {0, 1, 2}, {1, 0, 1}, {3, 3, 100}};
  const auto top = tracker.Add(next);
  ASSERT_TRUE(top);
  EXPECT_EQ(top->layer, 0u);
  EXPECT_EQ(top->head, 1u);
}

}  // namespace
}  // namespace foreshock::cli
