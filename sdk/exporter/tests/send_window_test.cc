#include "foreshock/sdk/send_window.h"

#include <gtest/gtest.h>

namespace foreshock::sdk {
namespace {

using wire::RecordType;

std::vector<std::pair<uint64_t, uint64_t>> SendAll(SendWindow& window) {  // (seq, gap)
  std::vector<std::pair<uint64_t, uint64_t>> sent;
  uint64_t gap = 0;
  while (const auto* item = window.Next(&gap)) {
    sent.emplace_back(item->seq, gap);
    window.Advance();
  }
  return sent;
}

using Sent = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(SendWindowTest, SendsInOrderAndForgetsWhatIsAcknowledged) {
  SendWindow window(100);
  for (uint64_t seq = 1; seq <= 3; ++seq) window.Add(seq, RecordType::kFrame, "0123456789");
  EXPECT_EQ(SendAll(window), (Sent{{1, 0}, {2, 0}, {3, 0}}));
  window.Acknowledge(2);
  EXPECT_EQ(window.bytes(), 10u);
  window.Acknowledge(3);
  EXPECT_TRUE(window.empty());
  EXPECT_EQ(window.dropped(), 0u);
}

TEST(SendWindowTest, FullDropsTheOldestAndDeclaresTheGapOnce) {
  SendWindow window(30);
  for (uint64_t seq = 1; seq <= 5; ++seq) window.Add(seq, RecordType::kFrame, "0123456789");
  EXPECT_EQ(window.dropped(), 2u);
  EXPECT_EQ(SendAll(window), (Sent{{3, 2}, {4, 0}, {5, 0}}));
}

TEST(SendWindowTest, AHoleInSeqIsAGap) {
  SendWindow window(100);
  window.Add(1, RecordType::kFrame, "a");
  window.Add(5, RecordType::kFrame, "b");  // the queue lost 2, 3, 4
  EXPECT_EQ(SendAll(window), (Sent{{1, 0}, {5, 3}}));
}

TEST(SendWindowTest, ANewLinkGetsWhatTheReceiverLacks) {
  SendWindow window(100);
  for (uint64_t seq = 1; seq <= 4; ++seq) window.Add(seq, RecordType::kFrame, "a");
  SendAll(window);
  window.Rewind(2);  // the receiver has 1 and 2
  EXPECT_EQ(SendAll(window), (Sent{{3, 0}, {4, 0}}));
}

TEST(SendWindowTest, WhatWasSentOnALostLinkAndThenDroppedIsDeclared) {
  SendWindow window(20);
  window.Add(1, RecordType::kFrame, "0123456789");
  window.Add(2, RecordType::kFrame, "0123456789");
  SendAll(window);
  window.Add(3, RecordType::kFrame, "0123456789");  // drops 1, which may have arrived
  EXPECT_EQ(window.dropped(), 0u) << "it was sent";
  EXPECT_EQ(window.unresolved(), 1u);
  window.Rewind(0);  // it had not
  EXPECT_EQ(window.dropped(), 1u);
  EXPECT_EQ(window.unresolved(), 0u);
  EXPECT_EQ(SendAll(window), (Sent{{2, 1}, {3, 0}}));
}

TEST(SendWindowTest, WhatWasDroppedButHadArrivedIsNotCounted) {
  SendWindow window(20);
  for (uint64_t seq = 1; seq <= 2; ++seq) window.Add(seq, RecordType::kFrame, "0123456789");
  SendAll(window);
  window.Add(3, RecordType::kFrame, "0123456789");
  window.Add(4, RecordType::kFrame, "0123456789");
  EXPECT_EQ(window.unresolved(), 2u);
  window.Rewind(1);  // of 1 and 2, which are gone here, the receiver has 1
  EXPECT_EQ(window.dropped(), 1u);
  EXPECT_EQ(SendAll(window), (Sent{{3, 1}, {4, 0}}));
  window.Add(5, RecordType::kFrame, "0123456789");
  window.Acknowledge(3);
  EXPECT_EQ(window.dropped(), 1u);
  EXPECT_EQ(window.unresolved(), 0u);
}

TEST(SendWindowTest, ARecordLargerThanTheWindowGoesAlone) {
  SendWindow window(5);
  window.Add(1, RecordType::kFrame, "0123456789");
  EXPECT_EQ(SendAll(window), (Sent{{1, 0}}));
}

TEST(SendWindowTest, ADiscardedRecordIsNotSentAgain) {
  SendWindow window(100);
  for (uint64_t seq = 1; seq <= 3; ++seq) window.Add(seq, RecordType::kFrame, "a");
  SendAll(window);
  window.Discard(2);
  window.Rewind(0);
  EXPECT_EQ(SendAll(window), (Sent{{1, 0}, {3, 1}})) << "and its absence is declared";
}

}  // namespace
}  // namespace foreshock::sdk
