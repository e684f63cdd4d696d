#include "statistics.h"

#include <gtest/gtest.h>

namespace foreshock::cli {
namespace {

TEST(Statistics, MedianOfOddEvenAndNone) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Median({}), std::nullopt);
}

TEST(Statistics, BoundOfARateIsTheExactOne) {
  // None in 18: 1 - 0.05^(1/18). One in 10 and 3 in 20: Clopper and Pearson's tables.
  EXPECT_NEAR(UpperBound(0, 18), 0.15332, 1e-4);
  EXPECT_NEAR(UpperBound(0, 60), 0.04870, 1e-4);
  EXPECT_NEAR(UpperBound(1, 10), 0.39416, 1e-4);
  EXPECT_NEAR(UpperBound(3, 20), 0.34366, 1e-4);
  EXPECT_EQ(UpperBound(5, 5), 1);
  EXPECT_EQ(UpperBound(0, 0), 1);
}

TEST(Statistics, BootstrapHoldsTheMedianAndRepeatsItself) {
  std::vector<double> values;
  for (int i = 0; i < 41; ++i) values.push_back(i);
  const auto interval = BootstrapMedian(values, 2000, 1);
  ASSERT_TRUE(interval);
  // About 20 +- 1.96 * 1.2533 * 11.8 / sqrt(41), by the normal approximation.
  EXPECT_NEAR(interval->low, 13, 3);
  EXPECT_NEAR(interval->high, 27, 3);
  const auto again = BootstrapMedian(values, 2000, 1);
  EXPECT_EQ(again->low, interval->low);
  EXPECT_EQ(again->high, interval->high);
  const auto narrow = BootstrapMedian(std::vector<double>(10, 3.0), 2000, 1);
  EXPECT_EQ(narrow->low, 3);
  EXPECT_EQ(narrow->high, 3);
  EXPECT_EQ(BootstrapMedian({1}, 2000, 1), std::nullopt);
}

}  // namespace
}  // namespace foreshock::cli
