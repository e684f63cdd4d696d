#include "foreshock/cli/lead.h"

#include <gtest/gtest.h>

#include <vector>

namespace foreshock::cli {
namespace {

using Spans = std::vector<FiringSpan>;
constexpr int64_t kEnd = 2000;

TEST(LastingSince, NoneFires) { EXPECT_EQ(LastingSince(Spans{}, kEnd), std::nullopt); }

TEST(LastingSince, StillFiring) { EXPECT_EQ(LastingSince(Spans{{1200}}, kEnd), 1200); }

TEST(LastingSince, OneThatResolvedWarnedOfNothing) {
  EXPECT_EQ(LastingSince(Spans{{1200, 1500}}, kEnd), std::nullopt);
  EXPECT_EQ(LastingSince(Spans{{1200, 1500}, {1700}}, kEnd), 1700);
}

TEST(LastingSince, OverlappingAndTouchingAlertsHandOver) {
  EXPECT_EQ(LastingSince(Spans{{1400}, {1200, 1450}}, kEnd), 1200);
  EXPECT_EQ(LastingSince(Spans{{1200, 1400}, {1400}}, kEnd), 1200);
  EXPECT_EQ(LastingSince(Spans{{1200, 1900}, {1300, 1400}, {1850}}, kEnd), 1200);
}

TEST(LastingSince, WhatComesAtOrAfterTheCollapseIsTooLate) {
  EXPECT_EQ(LastingSince(Spans{{kEnd}}, kEnd), std::nullopt);
  EXPECT_EQ(LastingSince(Spans{{kEnd + 5}}, kEnd), std::nullopt);
}

TEST(LastingSince, ResolvingAtTheCollapseStillCounts) {
  EXPECT_EQ(LastingSince(Spans{{1200, kEnd}}, kEnd), 1200);
  EXPECT_EQ(LastingSince(Spans{{1200, kEnd - 1}}, kEnd), std::nullopt);
}

}  // namespace
}  // namespace foreshock::cli
