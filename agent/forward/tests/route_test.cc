#include "route.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace foreshock::agent {
namespace {

std::string RunName(int i) { return "team/run-" + std::to_string(i); }

TEST(Route, SplitsAndRefuses) {
  EXPECT_EQ(SplitAddresses("a:1").value(), std::vector<std::string>{"a:1"});
  EXPECT_EQ(SplitAddresses("a:1,b:2").value(), (std::vector<std::string>{"a:1", "b:2"}));
  for (const char* bad : {"", ",", "a:1,", ",a:1", "a:1,a:1"}) {
    EXPECT_EQ(SplitAddresses(bad).status().code(), Code::kInvalidArgument) << bad;
  }
}

TEST(Route, IsTheSameInEveryOrder) {
  const std::vector<std::string> ab = {"a:1", "b:1", "c:1"}, ba = {"c:1", "a:1", "b:1"};
  for (int i = 0; i < 200; ++i) EXPECT_EQ(ab[RouteOf(ab, RunName(i))], ba[RouteOf(ba, RunName(i))]);
}

TEST(Route, SharesRunsAboutEvenly) {
  const std::vector<std::string> servers = {"s0:7071", "s1:7071", "s2:7071", "s3:7071"};
  std::vector<int> runs(servers.size());
  for (int i = 0; i < 4000; ++i) ++runs[RouteOf(servers, RunName(i))];
  EXPECT_GT(*std::min_element(runs.begin(), runs.end()), 850);  // six standard deviations below 1,000
}

TEST(Route, OnlyTheRunsOfALostServerMove) {
  const std::vector<std::string> all = {"a:1", "b:1", "c:1"}, left = {"a:1", "c:1"};
  int moved = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string before = all[RouteOf(all, RunName(i))], after = left[RouteOf(left, RunName(i))];
    if (before == "b:1") {
      ++moved;
    } else {
      EXPECT_EQ(before, after);
    }
  }
  EXPECT_GT(moved, 0);
}

}  // namespace
}  // namespace foreshock::agent
