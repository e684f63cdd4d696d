#include "foreshock/cli/number.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foreshock::cli {
namespace {

TEST(FormatNumber, FourDigits) {
  EXPECT_EQ(FormatNumber(0), "0");
  EXPECT_EQ(FormatNumber(1.68), "1.68");
  EXPECT_EQ(FormatNumber(-0.012345), "-0.01235");
  EXPECT_EQ(FormatNumber(1234.4), "1234");
  EXPECT_EQ(FormatNumber(99999), "99999");
  EXPECT_EQ(FormatNumber(1234567), "1.235e+06");
  EXPECT_EQ(FormatNumber(1e-9), "1e-09");
}

TEST(FormatNumber, NotFiniteAndMissingAreTold) {
  EXPECT_EQ(FormatNumber(NAN), "NaN");
  EXPECT_EQ(FormatNumber(INFINITY), "Inf");
  EXPECT_EQ(FormatNumber(-INFINITY), "-Inf");
  EXPECT_EQ(FormatNumber(std::nullopt), "-");
}

TEST(FormatBytes, Units) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(16ull << 30), "16.0 GiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16384.0 PiB");
}

TEST(FormatDuration, TwoUnitsAtMost) {
  EXPECT_EQ(FormatDuration(0.85), "850 ms");
  EXPECT_EQ(FormatDuration(12.9), "12 s");
  EXPECT_EQ(FormatDuration(200), "3 min 20 s");
  EXPECT_EQ(FormatDuration(18720), "5 h 12 min");
  EXPECT_EQ(FormatDuration(273600), "3 d 4 h");
  EXPECT_EQ(FormatDuration(-5), "-5 s");
  EXPECT_EQ(FormatDuration(INFINITY), "for ever");
  EXPECT_EQ(FormatDuration(NAN), "-");
}

TEST(FormatTime, UtcSeconds) {
  EXPECT_EQ(FormatTime(0), "-");
  EXPECT_EQ(FormatTime(1'795'962'007'999'000'000), "2026-11-29 14:20:07Z");
}

}  // namespace
}  // namespace foreshock::cli
