#include "foreshock/base/blocking_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace foreshock {
namespace {

using namespace std::chrono_literals;
using Queue = BlockingQueue<std::unique_ptr<int>>;

TEST(BlockingQueue, FullIsToldAndTheItemKept) {
  Queue queue(1);
  auto a = std::make_unique<int>(1);
  auto b = std::make_unique<int>(2);
  EXPECT_EQ(queue.TryPush(std::move(a)), Queue::Outcome::kOk);
  EXPECT_EQ(queue.TryPush(std::move(b)), Queue::Outcome::kFull);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(queue.Push(std::move(b), 0ns), Queue::Outcome::kFull);
  EXPECT_EQ(**queue.WaitPop(0ns), 1);
  EXPECT_EQ(queue.WaitPop(0ns), std::nullopt);
}

TEST(BlockingQueue, CloseLetsTheRestOut) {
  Queue queue(4);
  ASSERT_EQ(queue.TryPush(std::make_unique<int>(1)), Queue::Outcome::kOk);
  queue.Close();
  EXPECT_EQ(queue.TryPush(std::make_unique<int>(2)), Queue::Outcome::kClosed);
  EXPECT_EQ(**queue.WaitPop(1h), 1);
  EXPECT_EQ(queue.WaitPop(1h), std::nullopt);  // returns at once
  EXPECT_TRUE(queue.closed());
}

TEST(BlockingQueue, CloseWakesWaiters) {
  Queue queue(1);
  std::thread popper([&] { EXPECT_EQ(queue.WaitPop(1h), std::nullopt); });
  queue.Close();
  popper.join();
}

TEST(BlockingQueue, StressManyProducersAndConsumers) {
  constexpr int kEach = 5000;
  BlockingQueue<int> queue(16);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> threads;
  for (int p = 0; p < 3; ++p) {
    threads.emplace_back([&] {
      for (int i = 1; i <= kEach; ++i) {
        while (queue.Push(int{i}, 1s) != BlockingQueue<int>::Outcome::kOk) {
        }
      }
    });
  }
  std::vector<std::thread> consumers;
  for (int c = 0; c < 2; ++c) {
    consumers.emplace_back([&] {
      while (auto item = queue.WaitPop(1h)) sum += *item;
    });
  }
  for (auto& thread : threads) thread.join();
  queue.Close();
  for (auto& thread : consumers) thread.join();
  EXPECT_EQ(sum.load(), int64_t{3} * kEach * (kEach + 1) / 2);
}

}  // namespace
}  // namespace foreshock
