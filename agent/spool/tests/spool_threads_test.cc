// Receive threads append, forward threads read and acknowledge, the disk fills up at times. For tsan too.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "foreshock/agent/spool.h"
#include "spool_test_util.h"

namespace foreshock::agent {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kWriters = 4;
constexpr uint64_t kRecords = 400;

void AppendAll(Spool& spool, uint32_t rank, std::atomic<int>* waits) {
  ASSERT_TRUE(spool.OpenSource(Key(rank), "hello").ok());
  for (uint64_t seq = 1; seq <= kRecords;) {
    const uint64_t last = std::min(kRecords, seq + seq % 5);
    const Status status = AppendRange(spool, rank, seq, last, 200);
    if (status.ok()) {
      seq = last + 1;
      continue;
    }
    ASSERT_EQ(status.code(), Code::kResourceExhausted) << status.ToString();
    ++*waits;
    spool.WaitForSpace(5ms);
  }
}

void ReadAndAcknowledge(Spool& spool, uint32_t rank) {
  auto reader = spool.Read(Key(rank), 0);
  for (uint64_t expected = 1; expected <= kRecords;) {
    SpoolRecord record;
    const auto next = reader->Next(&record, 10ms);
    if (!next.ok()) {  // not opened yet
      ASSERT_EQ(next.status().code(), Code::kNotFound);
      ASSERT_EQ(expected, 1u);
      std::this_thread::yield();
      continue;
    }
    if (!*next) continue;
    ASSERT_EQ(record.seq, expected);
    ASSERT_EQ(record.payload, Payload(rank, expected, 200));
    if (expected % 7 == 0 || expected == kRecords) spool.Acknowledge(Key(rank), expected);
    ++expected;
  }
}

TEST(SpoolThreads, EveryRecordArrivesOnceInOrderThroughASmallSpool) {
  PowerCutFileSystem fs;
  SpoolOptions options;
  options.limit_bytes = 64 << 10;
  options.segment_bytes = 8 << 10;
  options.ack_persist_interval_ms = 1;
  auto spool = OpenSpool(fs, options);
  std::atomic<int> waits{0};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWriters; ++rank) {
    threads.emplace_back([&, rank] { AppendAll(*spool, rank, &waits); });
    threads.emplace_back([&, rank] { ReadAndAcknowledge(*spool, rank); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(spool->Stats().pending, 0u);
  EXPECT_EQ(spool->Stats().appended, kWriters * kRecords);
  // One sync serves many: never more commits than batches.
  EXPECT_LE(spool->Stats().syncs, kWriters * kRecords);
  EXPECT_EQ(spool->Stats().lost, 0u);
}

TEST(SpoolThreads, WakeEndsWaiting) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "hello").ok());
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    auto reader = spool->Read(Key(0), 0);
    SpoolRecord record;
    EXPECT_FALSE(reader->Next(&record, 1h).value());
    done = true;
  });
  while (!done) {
    spool->Wake();
    std::this_thread::yield();
  }
  waiter.join();
}

}  // namespace
}  // namespace foreshock::agent
