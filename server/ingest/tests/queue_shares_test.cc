#include "queue_shares.h"

#include <gtest/gtest.h>

namespace foreshock::ingest {
namespace {

TEST(QueueShares, SomethingLargerThanTheQueueGoesInAlone) {
  QueueShares queue(160);
  EXPECT_EQ(queue.RoomOf(1, 500), Room::kFree);
  queue.Add(1, 500);
  EXPECT_EQ(queue.RoomOf(2, 1), Room::kFull);
}

TEST(QueueShares, CountsByRun) {
  QueueShares queue(160);
  queue.Add(1, 90);
  queue.Add(2, 20);
  EXPECT_EQ(queue.RoomOf(1, 1), Room::kShare) << "has more than half";
  EXPECT_EQ(queue.RoomOf(2, 40), Room::kFree);
  EXPECT_EQ(queue.RoomOf(3, 40), Room::kFree) << "one that has nothing";
  queue.Add(3, 5);
  EXPECT_EQ(queue.RoomOf(2, 35), Room::kShare) << "of three a third";
  queue.Remove(1, 90);
  EXPECT_EQ(queue.RoomOf(2, 55), Room::kFree) << "below half everybody takes what he needs";
  EXPECT_EQ(queue.bytes(), 25u);
}

TEST(QueueShares, ForgetsRunsThatHaveNothing) {
  QueueShares queue(160);
  queue.Add(1, 70);
  queue.Add(2, 20);
  queue.Remove(2, 20);
  EXPECT_EQ(queue.RoomOf(1, 80), Room::kFree) << "alone again";
}

}  // namespace
}  // namespace foreshock::ingest
