#include "foreshock/base/drop_oldest_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace foreshock {
namespace {

void Push(BoundedDropOldestQueue<int>& queue, int value) {
  queue.Slot() = value;
  queue.Publish();
}

TEST(DropOldestQueue, KeepsOrder) {
  BoundedDropOldestQueue<int> queue(4);
  uint64_t gap = 99;
  EXPECT_EQ(queue.Take(&gap), nullptr);
  EXPECT_TRUE(queue.Empty());
  for (int i = 0; i < 3; ++i) Push(queue, i);
  for (int i = 0; i < 3; ++i) {
    const int* item = queue.Take(&gap);
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(*item, i);
    EXPECT_EQ(gap, 0u);
  }
  EXPECT_EQ(queue.Take(&gap), nullptr);
}

TEST(DropOldestQueue, FullDropsTheOldestAndDeclaresTheGap) {
  BoundedDropOldestQueue<int> queue(4);
  for (int i = 0; i < 4; ++i) {
    queue.Slot() = i;
    EXPECT_TRUE(queue.Publish());
  }
  for (int i = 4; i < 7; ++i) {
    queue.Slot() = i;
    EXPECT_FALSE(queue.Publish());
  }
  uint64_t gap = 0;
  const int* item = queue.Take(&gap);
  ASSERT_NE(item, nullptr);
  EXPECT_EQ(*item, 3);
  EXPECT_EQ(gap, 3u);
  EXPECT_EQ(*queue.Take(&gap), 4);
  EXPECT_EQ(gap, 0u);
  const QueueCounters counters = queue.Counters();
  EXPECT_EQ(counters.pushed, 7u);
  EXPECT_EQ(counters.popped, 2u);
  EXPECT_EQ(counters.dropped, 3u);
}

TEST(DropOldestQueue, TheItemBeingReadIsNeverTouched) {
  BoundedDropOldestQueue<int> queue(2);
  Push(queue, 100);
  uint64_t gap = 0;
  int* reading = queue.Take(&gap);
  ASSERT_NE(reading, nullptr);
  for (int i = 0; i < 50; ++i) {
    Push(queue, i);
    EXPECT_EQ(*reading, 100);
  }
  EXPECT_EQ(*queue.Take(&gap), 48);
  EXPECT_EQ(gap, 48u);
  EXPECT_EQ(*queue.Take(&gap), 49);
  EXPECT_EQ(queue.Take(&gap), nullptr);
}

TEST(DropOldestQueue, CapacityOneWorks) {
  BoundedDropOldestQueue<int> queue(1);
  Push(queue, 1);
  Push(queue, 2);
  uint64_t gap = 0;
  EXPECT_EQ(*queue.Take(&gap), 2);
  EXPECT_EQ(gap, 1u);
}

TEST(DropOldestQueue, SlotsKeepTheirBuffers) {
  BoundedDropOldestQueue<std::vector<int>> queue(3);
  queue.ForEachSlot([](std::vector<int>& slot) { slot.reserve(64); });
  for (int round = 0; round < 20; ++round) {
    EXPECT_GE(queue.Slot().capacity(), 64u);
    queue.Slot().assign(10, round);
    queue.Publish();
    uint64_t gap = 0;
    if (round % 3 == 0) {
      ASSERT_NE(queue.Take(&gap), nullptr);
    }
  }
}

// The contents are many words written without atomics: a slot shared by two threads would tear (and tsan
// would say).
struct Wide {
  uint64_t words[16] = {};
};

TEST(DropOldestQueue, StressOrderGapsAndCountersAgree) {
  constexpr uint64_t kItems = 200'000;
  BoundedDropOldestQueue<Wide> queue(8);
  std::atomic<bool> done{false};
  std::thread producer([&] {
    for (uint64_t i = 0; i < kItems; ++i) {
      for (uint64_t& word : queue.Slot().words) word = i;
      queue.Publish();
      if (i % 64 == 0) std::this_thread::yield();
    }
    done.store(true, std::memory_order_release);
  });
  uint64_t expected = 0;
  uint64_t taken = 0;
  uint64_t gaps = 0;
  for (;;) {
    const bool finished = done.load(std::memory_order_acquire);
    uint64_t gap = 0;
    Wide* item = queue.Take(&gap);
    if (item == nullptr) {
      if (finished) break;
      std::this_thread::yield();
      continue;
    }
    ++taken;
    gaps += gap;
    expected += gap;
    for (uint64_t word : item->words) ASSERT_EQ(word, expected);
    ++expected;
  }
  producer.join();
  EXPECT_EQ(expected, kItems);
  const QueueCounters counters = queue.Counters();
  EXPECT_EQ(counters.pushed, kItems);
  EXPECT_EQ(counters.popped, taken);
  EXPECT_EQ(counters.dropped, gaps);
  EXPECT_TRUE(queue.Empty());
}

}  // namespace
}  // namespace foreshock
