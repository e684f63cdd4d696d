#include "backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace foreshock::agent {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesUpToItsLimitWithJitter) {
  Backoff backoff(milliseconds(100), milliseconds(1000), 1);
  for (int64_t whole : {100, 200, 400, 800, 1000, 1000, 1000}) {
    const int64_t wait = backoff.Next().count();
    EXPECT_GE(wait, whole / 2);
    EXPECT_LE(wait, whole);
  }
  backoff.Reset();
  EXPECT_LE(backoff.Next(), milliseconds(100));
}

TEST(Backoff, SendersDoNotComeBackTogether) {
  std::set<int64_t> waits;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Backoff backoff(milliseconds(1000), milliseconds(1000), seed);
    waits.insert(backoff.Next().count());
  }
  EXPECT_GT(waits.size(), 10u);
}

TEST(Backoff, NonsenseIsClamped) {
  Backoff backoff(milliseconds(0), milliseconds(-5), 1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(backoff.Next(), milliseconds(1));
}

}  // namespace
}  // namespace foreshock::agent
