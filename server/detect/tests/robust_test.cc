#include "robust.h"

#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/tests/not_finite.h"
#include "head_windows.h"

namespace foreshock::detect {
namespace {

using tests::kInf;
using tests::kNan;

TEST(Median, OddEvenEmptyFewAndMany) {
  std::vector<double> odd = {3, 1, 2}, even = {4, 1, 3, 2}, none;
  EXPECT_EQ(MedianInPlace(odd), 2);
  EXPECT_EQ(MedianInPlace(even), 2.5);
  EXPECT_TRUE(std::isnan(MedianInPlace(none)));
  std::vector<double> many, many_even;
  for (int i = 0; i < 101; ++i) many.push_back((i * 37) % 101);
  for (int i = 0; i < 100; ++i) many_even.push_back((i * 37) % 100);
  EXPECT_EQ(MedianInPlace(many), 50);
  EXPECT_EQ(MedianInPlace(many_even), 49.5);
}

TEST(RobustWindow, OneSpikeMovesNothing) {
  RobustWindow window(20);
  for (int i = 0; i < 20; ++i) window.Push(10 + (i % 3));
  const Baseline before = window.Get();
  window.Push(1e30);
  EXPECT_EQ(window.Get().median, before.median);
  EXPECT_NEAR(window.Get().scale, before.scale, 1.5);
}

TEST(RobustWindow, NanAndInfAreNotTakenAndOneInfIsForgotten) {
  RobustWindow window(3);
  for (const double value : {1.0, kNan, kInf, 2.0, -kInf, 3.0}) window.Push(value);
  EXPECT_EQ(window.size(), 3u);
  EXPECT_EQ(window.Get().median, 2);
}

TEST(RobustWindow, LagKeepsTheNewestOutOfTheBaseline) {
  RobustWindow window(4, 2);
  for (const double value : {1.0, 1.0, 1.0, 1.0, 9.0, 9.0}) window.Push(value);
  EXPECT_EQ(window.Get().median, 1);
  EXPECT_EQ(window.Get().count, 4u);
  EXPECT_EQ(window.Recent(2), 9);
}

TEST(HeadWindows, HeadsAreApartAndLevelsAreRecent) {
  HeadWindows windows(2, 4, 3);
  for (int i = 0; i < 7; ++i) {
    windows.Push(0, i < 4 ? 1 : 5);
    windows.Push(1, kNan);
  }
  EXPECT_EQ(windows.Level(0), 5);
  EXPECT_EQ(windows.Get(0).median, 1);
  EXPECT_EQ(windows.BaselineCount(0), 4u);
  EXPECT_TRUE(std::isnan(windows.Level(1)));
  EXPECT_EQ(windows.Get(1).count, 0u);
  windows.Clear(0);
  EXPECT_TRUE(std::isnan(windows.Level(0)));
}

}  // namespace
}  // namespace foreshock::detect
