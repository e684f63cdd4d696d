#include "foreshock/base/refusals.h"

#include <gtest/gtest.h>

#include <string>

namespace foreshock {
namespace {

using std::chrono::seconds;

class RefusalsTest : public testing::Test {
 protected:
  void NoteOften(std::string_view reason, const std::string& whom, int times) {
    for (int i = 0; i < times; ++i) refusals_.Note(reason, whom);
  }
  Refusals refusals_;
  const Refusals::SteadyTime start_{};
};

TEST_F(RefusalsTest, TheFirstIsToldAtOnceTheRestAfterAMinute) {
  EXPECT_TRUE(refusals_.Due(start_).empty());
  EXPECT_EQ(refusals_.WaitMs(start_), -1);
  refusals_.Note("full", "a");
  EXPECT_EQ(refusals_.WaitMs(start_), 0);
  ASSERT_EQ(refusals_.Due(start_).size(), 1u);
  EXPECT_EQ(refusals_.WaitMs(start_), -1);

  NoteOften("full", "a", 2);
  NoteOften("full", "b", 5);
  EXPECT_TRUE(refusals_.Due(start_ + seconds(59)).empty());
  EXPECT_EQ(refusals_.WaitMs(start_ + seconds(59)), 1000);
  EXPECT_EQ(refusals_.WaitMs(start_ + seconds(600)), 0);
  const auto due = refusals_.Due(start_ + seconds(60));
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].reason, "full");
  EXPECT_EQ(due[0].refused, 7u);
  EXPECT_EQ(due[0].in_all, 8u);
  EXPECT_EQ(due[0].most_of, "b");
  EXPECT_EQ(due[0].of_these, 5u);
  EXPECT_EQ(due[0].kinds, 2u);
  EXPECT_TRUE(refusals_.Due(start_ + seconds(600)).empty()) << "nothing came since";
}

TEST_F(RefusalsTest, EachReasonHasItsMinute) {
  refusals_.Note("full", "a");
  ASSERT_EQ(refusals_.Due(start_).size(), 1u);
  refusals_.Note("full", "a");
  refusals_.Note("share", "a");
  const auto due = refusals_.Due(start_ + seconds(30));
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].reason, "share");
  EXPECT_EQ(refusals_.WaitMs(start_ + seconds(30)), 30'000);
}

TEST_F(RefusalsTest, NamesWithoutNumberAreCountedAndNotKept) {
  for (size_t i = 0; i < 3 * Refusals::kMostNames; ++i) refusals_.Note("full", std::to_string(i));
  const auto due = refusals_.Due(start_);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].refused, 3 * Refusals::kMostNames);
  EXPECT_EQ(due[0].kinds, Refusals::kMostNames);
}

}  // namespace
}  // namespace foreshock
