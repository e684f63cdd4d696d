#include "robust.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

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

double MedianBySorting(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

// Values by their place i of n; some mislead a sample of them on purpose.
TEST(Median, OfThousandsIsExactInWhateverOrderTheyCome) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  const std::vector<std::pair<const char*, std::function<double(size_t, size_t)>>> orders = {
      {"normal", [&](size_t, size_t) { return normal(random); }},
      {"rising", [](size_t i, size_t) { return static_cast<double>(i); }},
      {"falling", [](size_t i, size_t n) { return static_cast<double>(n - i); }},
      {"all equal", [](size_t, size_t) { return 2.5; }},
      {"few values", [&](size_t, size_t) { return std::round(normal(random)); }},
      {"two clusters",
       [](size_t i, size_t n) { return (2 * i < n ? 1e300 : -1e300) + static_cast<double>(i); }},
      {"every 24th far above", [&](size_t i, size_t) { return normal(random) + (i % 24 == 0 ? 1e6 : 0); }},
      {"every 2nd far below", [&](size_t i, size_t) { return normal(random) - (i % 2 == 0 ? 1e6 : 0); }},
  };
  for (const size_t n : {13, 255, 256, 257, 1000, 3071, 3072, 20'001}) {
    for (const auto& [name, value] : orders) {
      std::vector<double> values;
      for (size_t i = 0; i < n; ++i) values.push_back(value(i, n));
      const double expected = MedianBySorting(values);
      std::vector<double> copy = values, scratch;
      EXPECT_EQ(MedianInPlace(copy), expected) << name << " of " << n;
      for (double& v : copy = values) v = std::abs(v - expected);
      EXPECT_EQ(RobustBaseline(values, &scratch).scale, 1.4826 * MedianBySorting(copy))
          << name << " of " << n;
    }
  }
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

TEST(HeadWindows, LevelIsTheMedianOfTheNewestFullOrNot) {
  std::mt19937_64 random(3);
  std::uniform_int_distribution<int> value(-4, 4);
  for (const size_t length : {1, 2, 3, 4, 5, 8}) {
    HeadWindows windows(2, 0, length);
    std::vector<double> pushed;
    for (int i = 0; i < 200; ++i) {
      pushed.push_back(value(random));
      windows.Push(1, pushed.back());
      for (size_t newest = 1; newest <= length; ++newest) {
        const auto n = static_cast<ptrdiff_t>(std::min(newest, pushed.size()));
        EXPECT_EQ(windows.Level(1, newest), MedianBySorting({pushed.end() - n, pushed.end()}))
            << newest << " of " << length << ", push " << i;
      }
    }
    EXPECT_TRUE(std::isnan(windows.Level(0)));
  }
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
