#include "curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foreshock::scenario {
namespace {

std::vector<double> Values(const std::string& text, int64_t samples) {
  const auto curve = Curve::Parse(text);
  EXPECT_TRUE(curve.ok()) << curve.status().ToString();
  std::vector<double> values;
  for (int64_t i = 0; curve.ok() && i < samples; ++i) {
    values.push_back(curve->Value(i, [] { return std::optional(10.0); }).value_or(-1));
  }
  return values;
}

TEST(Curve, ValuesRepeatsAndMissingOnes) {
  EXPECT_EQ(Values("3 2x2 _ 1", 7), (std::vector<double>{3, 2, 2, -1, 1, 1, 1}));
  EXPECT_EQ(Values("5 _", 4), (std::vector<double>{5, -1, -1, -1}));
}

TEST(Curve, RampsReachBothEndsAndStay) {
  EXPECT_EQ(Values("1..4x4", 6), (std::vector<double>{1, 2, 3, 4, 4, 4}));
  const auto ratios = Values("1~8x4", 5);
  EXPECT_DOUBLE_EQ(ratios[1], 2);
  EXPECT_DOUBLE_EQ(ratios[4], 8);
  EXPECT_EQ(Values("-1..-3x3 7", 4), (std::vector<double>{-1, -2, -3, 7}));
}

TEST(Curve, HealthyOnesAndTheirMultiples) {
  EXPECT_EQ(Values("ok ok*2 ok*1..3x3", 6), (std::vector<double>{10, 20, 10, 20, 30, 30}));
}

TEST(Curve, NotFiniteOnesArePassedOn) {
  const auto values = Values("NaNx2 Inf -Inf", 4);
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1]));
  EXPECT_TRUE(std::isinf(values[2]) && values[3] < -1e300);
}

TEST(Curve, RefusesWhatItCannotRead) {
  for (const char* bad : {"", "  ", "abc", "3x0", "3x", "x3", "3x-1", "1~-1x3", "0~1x3", "1..", "..1", "ok*",
                          "okk", "3x1000001", "3x600000 3x600000", "1e999", "0x10x"}) {
    EXPECT_FALSE(Curve::Parse(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace foreshock::scenario
