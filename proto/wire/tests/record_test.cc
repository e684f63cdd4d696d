#include "foreshock/wire/record.h"

#include <gtest/gtest.h>

#include <random>

#include "foreshock/wire/recording.h"

namespace foreshock::wire {
namespace {

std::string ThreeRecords() {
  std::string out;
  AppendRecord(RecordType::kHello, "one", &out);
  AppendRecord(RecordType::kFrame, "", &out);
  AppendRecord(RecordType::kGoodbye, "three", &out);
  return out;
}

std::vector<std::string> ReadAll(RecordParser& parser, size_t* damaged) {
  std::vector<std::string> payloads;
  while (true) {
    const auto next = parser.Next();
    if (!next.ok()) {
      ++*damaged;
    } else if (next->has_value()) {
      payloads.push_back((*next)->payload);
    } else {
      return payloads;
    }
  }
}

TEST(Record, ByteByByte) {
  RecordParser parser;
  std::vector<std::string> payloads;
  size_t damaged = 0;
  for (const char c : ThreeRecords()) {
    parser.Feed(std::string_view(&c, 1));
    for (auto& p : ReadAll(parser, &damaged)) payloads.push_back(p);
  }
  EXPECT_EQ(payloads, (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(damaged, 0u);
  EXPECT_EQ(parser.pending_bytes(), 0u);
}

TEST(Record, LayoutIsPinned) {
  std::string out;
  AppendRecord(RecordType::kHello, "123456789", &out);
  EXPECT_EQ(out.substr(0, 12), std::string("FSK1\x01\x01\x00\x00\x09\x00\x00\x00", 12));
  EXPECT_EQ(out.size(), 9 + kRecordOverhead);
}

TEST(Record, FlippedBitCostsOneRecord) {
  std::string bytes = ThreeRecords();
  bytes[13] ^= 1;  // in the payload of the first
  RecordParser parser;
  parser.Feed(bytes);
  size_t damaged = 0;
  EXPECT_EQ(ReadAll(parser, &damaged), (std::vector<std::string>{"", "three"}));
  EXPECT_EQ(damaged, 1u);
}

TEST(Record, GarbageBetweenRecordsIsReportedOnce) {
  std::string bytes = ThreeRecords();
  bytes.insert(19, "garbage FS FSK garbage");
  RecordParser parser;
  parser.Feed(bytes);
  size_t damaged = 0;
  EXPECT_EQ(ReadAll(parser, &damaged), (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(damaged, 1u);
}

TEST(Record, TooLongIsRefusedBeforeItIsBuffered) {
  std::string bytes;
  AppendRecord(RecordType::kFrame, std::string(100, 'x'), &bytes);
  RecordParser parser(50);
  parser.Feed(bytes);
  const auto next = parser.Next();
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.status().message(), "record at byte 0: length 100, at most 50");
}

TEST(Record, DamagedLengthDoesNotSwallowTheRest) {
  std::string bytes = ThreeRecords();
  bytes[10] = 0x20;  // length of the first: 2 MiB more
  std::vector<std::string> warnings;
  RecordParser parser;
  parser.Feed(bytes);
  size_t damaged = 0;
  EXPECT_TRUE(ReadAll(parser, &damaged).empty());
  EXPECT_GT(parser.pending_bytes(), 0u);
  parser.SkipPending();
  EXPECT_EQ(ReadAll(parser, &damaged), (std::vector<std::string>{"", "three"}));
}

TEST(Record, RandomDamageNeverCrashesAndKeepsGoodRecords) {
  const unsigned seed = 7;
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = ThreeRecords() + ThreeRecords();
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    RecordParser parser(1000);
    parser.Feed(bytes);
    size_t damaged = 0;
    const auto payloads = ReadAll(parser, &damaged);
    EXPECT_GE(payloads.size() + damaged + (parser.pending_bytes() > 0 ? 1 : 0), 1u) << "seed " << seed;
    EXPECT_LE(payloads.size(), 6u);
  }
}

TEST(FramedRecording, TornTailIsAWarning) {
  std::string bytes;
  Hello hello;
  hello.run = "r";
  AppendRecord(RecordType::kHello, Encode(hello), &bytes);
  Frame frame;
  frame.step = 3;
  AppendRecord(RecordType::kFrame, Encode(frame), &bytes);
  AppendRecord(RecordType::kFrame, Encode(frame), &bytes);
  bytes.resize(bytes.size() - 5);
  std::vector<RecordingItem> items;
  std::vector<std::string> warnings;
  const Status status = ReadFramedRecording(
      bytes, [&](RecordingItem item) { items.push_back(std::move(item)); }, &warnings);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(items.size(), 2u);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("unfinished"), std::string::npos);
}

TEST(FramedRecording, SomethingElseIsRefused) {
  std::vector<std::string> warnings;
  EXPECT_EQ(ReadFramedRecording(
                "hello", [](RecordingItem) {}, &warnings)
                .code(),
            Code::kInvalidArgument);
  EXPECT_EQ(ReadFramedRecording(
                "FSK1", [](RecordingItem) {}, &warnings)
                .code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace foreshock::wire
