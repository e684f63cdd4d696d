#include "queue_shares.h"

#include <gtest/gtest.h>

namespace foreshock::ingest {
namespace {

TEST(QueueShares, OneRunMayHaveAll) {
  QueueShares queue(100);
  EXPECT_TRUE(queue.HasRoom(1, 500)) << "larger than the queue, alone";
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(queue.HasRoom(1, 10));
    queue.Add(1, 10);
  }
  EXPECT_FALSE(queue.HasRoom(1, 1));
  EXPECT_FALSE(queue.FitsAtAll(1));
}

TEST(QueueShares, BeyondHalfNoneTakesMoreThanItsShare) {
  QueueShares queue(100);
  queue.Add(1, 60);
  queue.Add(2, 10);
  EXPECT_FALSE(queue.HasRoom(1, 1)) << "has more than half";
  EXPECT_TRUE(queue.FitsAtAll(1));
  EXPECT_TRUE(queue.HasRoom(2, 30));
  EXPECT_TRUE(queue.HasRoom(3, 30)) << "one that has nothing";
  queue.Add(3, 5);
  EXPECT_FALSE(queue.HasRoom(2, 25)) << "of three a third";
  queue.Remove(1, 60);
  EXPECT_TRUE(queue.HasRoom(2, 35)) << "below half everybody takes what he needs";
  EXPECT_TRUE(queue.HasRoom(1, 35));
}

TEST(QueueShares, ForgetsRunsThatHaveNothing) {
  QueueShares queue(100);
  queue.Add(1, 40);
  queue.Add(2, 20);
  queue.Remove(2, 20);
  EXPECT_TRUE(queue.HasRoom(1, 60)) << "alone again";
  EXPECT_EQ(queue.bytes(), 40u);
}

}  // namespace
}  // namespace foreshock::ingest
