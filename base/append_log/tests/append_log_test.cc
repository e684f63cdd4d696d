#include "foreshock/base/append_log.h"

#include <gtest/gtest.h>

#include "foreshock/base/power_cut_file_system.h"

namespace foreshock {
namespace {

constexpr uint32_t kKind = LogKind("TEST");
using Outcome = AppendLogReader::Outcome;

std::unique_ptr<AppendLogWriter> OpenWriter(FileSystem& fs, LogRecovery* recovery = nullptr,
                                            std::vector<std::string>* seen = nullptr) {
  LogRecovery local;
  auto writer = AppendLogWriter::Open(
      fs, "log", kKind,
      [&](const LogRecord& record) {
        if (seen != nullptr) seen->push_back(std::to_string(record.type) + ":" + std::string(record.payload));
      },
      recovery != nullptr ? recovery : &local);
  EXPECT_TRUE(writer.ok()) << writer.status().ToString();
  return std::move(writer).value();
}

void WriteThree(FileSystem& fs) {
  auto writer = OpenWriter(fs);
  ASSERT_TRUE(writer->Append(1, "first").ok());
  ASSERT_TRUE(writer->Append(2, "").ok());
  ASSERT_TRUE(writer->Append(3, std::string(1000, 'z')).ok());
  ASSERT_TRUE(writer->Sync().ok());
}

TEST(AppendLog, ReadsBackWhatWasWritten) {
  PowerCutFileSystem fs;
  WriteThree(fs);
  auto reader = AppendLogReader::Open(fs, "log", kKind).value();
  LogRecord record;
  ASSERT_EQ(reader->Next(&record), Outcome::kRecord);
  EXPECT_EQ(record.type, 1);
  EXPECT_EQ(record.payload, "first");
  EXPECT_EQ(record.offset, kLogHeaderBytes);
  ASSERT_EQ(reader->Next(&record), Outcome::kRecord);
  EXPECT_EQ(record.payload, "");
  const uint64_t second = record.offset;
  ASSERT_EQ(reader->Next(&record), Outcome::kRecord);
  EXPECT_EQ(record.payload.size(), 1000u);
  EXPECT_EQ(reader->Next(&record), Outcome::kEnd);
  EXPECT_EQ(reader->Next(&record), Outcome::kEnd);
  ASSERT_TRUE(reader->ReadRecordAt(second, &record).ok());
  EXPECT_EQ(record.type, 2);
  EXPECT_EQ(reader->ReadRecordAt(second + 1, &record).code(), Code::kDataLoss);
}

// The bytes are on disks for ever. The checksums here come from another implementation, bit by bit.
TEST(AppendLog, BytesAreAsDocumented) {
  PowerCutFileSystem fs;
  LogRecovery recovery;
  auto writer = AppendLogWriter::Open(fs, "log", kKind, nullptr, &recovery, 0xC0FFEE11).value();
  ASSERT_TRUE(writer->Append(7, "ab").ok());
  ASSERT_TRUE(writer->Sync().ok());
  const std::string bytes = ReadWholeFile(fs, "log").value();
  std::string hex;
  for (unsigned char c : bytes) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", c);
    hex += text;
  }
  EXPECT_EQ(hex,
            "46534b4c4f47"  // FSKLOG
            "0100"          // version
            "54455354"      // TEST
            "11eeffc0"      // tag
            "cda52aa4"      // crc32c of the header
            "02000000"      // length
            "07"            // type
            "708efc"        // low 24 bits of crc32c(length, type, tag, offset 20 as u64)
            "11eeffc0"      // tag
            "12637573"      // crc32c of the payload continued from it
            "6162");
}

TEST(AppendLog, GoesOnAfterReopening) {
  PowerCutFileSystem fs;
  WriteThree(fs);
  LogRecovery recovery;
  auto writer = OpenWriter(fs, &recovery);
  EXPECT_EQ(recovery.records, 3u);
  EXPECT_EQ(recovery.torn_bytes, 0u);
  EXPECT_EQ(writer->next_offset(), writer->size());
  ASSERT_TRUE(writer->Append(4, "later").ok());
  ASSERT_TRUE(writer->Sync().ok());
  std::vector<std::string> seen;
  OpenWriter(fs, &recovery, &seen);
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[3], "4:later");
}

TEST(AppendLog, EveryCutOfTheTailIsFoundAndCutOff) {
  PowerCutFileSystem whole;
  WriteThree(whole);
  const std::string bytes = ReadWholeFile(whole, "log").value();
  const size_t ends[] = {20, 20 + 16 + 5, 20 + 16 + 5 + 16, bytes.size()};
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    PowerCutFileSystem fs;
    auto file = fs.OpenAppend("log").value();
    ASSERT_TRUE(file->Append(bytes.substr(0, cut)).ok());
    size_t records = 0;
    while (records < 3 && ends[records + 1] <= cut) ++records;
    const size_t valid = cut < kLogHeaderBytes ? 0 : ends[records];
    LogRecovery recovery;
    auto writer = OpenWriter(fs, &recovery);
    EXPECT_EQ(recovery.records, records) << cut;
    EXPECT_EQ(recovery.torn_bytes, cut - valid) << cut;
    EXPECT_EQ(recovery.corrupt_regions, 0u) << cut;
    EXPECT_EQ(recovery.detail.empty(), recovery.torn_bytes == 0) << recovery.detail;
    ASSERT_TRUE(writer->Append(9, "new").ok());
    ASSERT_TRUE(writer->Sync().ok());
    std::vector<std::string> seen;
    OpenWriter(fs, &recovery, &seen);
    ASSERT_EQ(seen.size(), records + 1) << cut;
    EXPECT_EQ(seen.back(), "9:new");
    EXPECT_EQ(recovery.torn_bytes, 0u);
  }
}

TEST(AppendLog, DamageInTheMiddleIsSkippedAndCounted) {
  // Length, type, check, tag, crc, payload of the first record.
  for (uint64_t offset : {20, 22, 24, 25, 28, 32, 36}) {
    PowerCutFileSystem fs;
    WriteThree(fs);
    ASSERT_TRUE(fs.CorruptByte("log", offset, 0x40).ok());
    auto reader = AppendLogReader::Open(fs, "log", kKind).value();
    LogRecord record;
    ASSERT_EQ(reader->Next(&record), Outcome::kCorrupt) << offset;
    EXPECT_EQ(reader->status().code(), Code::kDataLoss);
    EXPECT_NE(reader->status().message().find("offset 20"), std::string::npos) << reader->status().message();
    ASSERT_EQ(reader->Next(&record), Outcome::kRecord);
    EXPECT_EQ(record.type, 2);
    ASSERT_EQ(reader->Next(&record), Outcome::kRecord);
    EXPECT_EQ(reader->Next(&record), Outcome::kEnd);
    EXPECT_EQ(reader->corrupt_regions(), 1u);
    EXPECT_EQ(reader->corrupt_bytes(), 21u);
  }
}

TEST(AppendLog, DamagedFileHeaderStillGivesTheRecords) {
  PowerCutFileSystem fs;
  WriteThree(fs);
  ASSERT_TRUE(fs.CorruptByte("log", 3, 0x01).ok());
  std::vector<std::string> seen;
  LogRecovery recovery;
  OpenWriter(fs, &recovery, &seen);
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(recovery.corrupt_regions, 1u);
}

// What a file system may show behind a file's end after a power cut: blocks of a file that was deleted.
TEST(AppendLog, RecordsOfAnotherLogAreNone) {
  PowerCutFileSystem fs;
  WriteThree(fs);
  const std::string old = ReadWholeFile(fs, "log").value();
  ASSERT_TRUE(fs.Remove("log").ok());
  auto writer = OpenWriter(fs);
  ASSERT_TRUE(writer->Append(1, "first").ok());
  ASSERT_TRUE(writer->Sync().ok());
  const uint64_t end = writer->size();
  writer.reset();
  ASSERT_TRUE(fs.OpenAppend("log").value()->Append(old.substr(end)).ok());  // at their own offsets
  LogRecovery recovery;
  std::vector<std::string> seen;
  OpenWriter(fs, &recovery, &seen);
  EXPECT_EQ(seen, std::vector<std::string>{"1:first"});
  EXPECT_EQ(recovery.torn_bytes, old.size() - end);
  EXPECT_EQ(recovery.corrupt_regions, 0u);
}

TEST(AppendLog, RecordsOfAnotherPlaceAreNone) {
  PowerCutFileSystem fs;
  WriteThree(fs);
  const std::string bytes = ReadWholeFile(fs, "log").value();
  ASSERT_TRUE(fs.OpenAppend("log").value()->Append(bytes.substr(kLogHeaderBytes)).ok());
  LogRecovery recovery;
  std::vector<std::string> seen;
  OpenWriter(fs, &recovery, &seen);
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_EQ(recovery.torn_bytes, bytes.size() - kLogHeaderBytes);
}

// Its own tag goes with the header; the first whole record has it too, and others are still turned away.
TEST(AppendLog, UnderADamagedHeaderTheFirstRecordTellsTheTag) {
  PowerCutFileSystem fs;
  WriteThree(fs);
  const std::string old = ReadWholeFile(fs, "log").value();
  ASSERT_TRUE(fs.Remove("log").ok());
  WriteThree(fs);
  ASSERT_TRUE(fs.Truncate("log", kLogHeaderBytes + kLogRecordOverhead + 5).ok());
  ASSERT_TRUE(
      fs.OpenAppend("log").value()->Append(old.substr(kLogHeaderBytes + kLogRecordOverhead + 5)).ok());
  ASSERT_TRUE(fs.CorruptByte("log", 12, 0x01).ok());
  std::vector<std::string> seen;
  OpenWriter(fs, nullptr, &seen);
  EXPECT_EQ(seen, std::vector<std::string>{"1:first"});
}

TEST(AppendLog, AReaderFollowsAWriterByLimits) {
  PowerCutFileSystem fs;
  auto writer = OpenWriter(fs);
  ASSERT_TRUE(writer->Append(1, "one").ok());
  ASSERT_TRUE(writer->Sync().ok());
  const uint64_t durable = writer->size();
  ASSERT_TRUE(writer->Append(1, "two").ok());
  ASSERT_TRUE(writer->Flush().ok());
  auto reader = AppendLogReader::Open(fs, "log", kKind).value();
  reader->SetLimit(durable);
  LogRecord record;
  ASSERT_EQ(reader->Next(&record), Outcome::kRecord);
  EXPECT_EQ(reader->Next(&record), Outcome::kEnd);
  // What lies behind the limit is cut back and written anew.
  ASSERT_TRUE(fs.Truncate("log", durable).ok());
  writer.reset();
  writer = OpenWriter(fs);
  ASSERT_TRUE(writer->Append(1, "new").ok());
  ASSERT_TRUE(writer->Sync().ok());
  reader->SetLimit(writer->size());
  ASSERT_EQ(reader->Next(&record), Outcome::kRecord);
  EXPECT_EQ(record.payload, "new");
  EXPECT_EQ(reader->Next(&record), Outcome::kEnd);
  reader->Seek(kLogHeaderBytes);
  ASSERT_EQ(reader->Next(&record), Outcome::kRecord);
  EXPECT_EQ(record.payload, "one");
}

TEST(AppendLog, OtherKindAndLaterVersionAreRefused) {
  PowerCutFileSystem fs;
  WriteThree(fs);
  LogRecovery recovery;
  EXPECT_EQ(AppendLogReader::Open(fs, "log", LogKind("ELSE")).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(AppendLogWriter::Open(fs, "log", LogKind("ELSE"), nullptr, &recovery).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(AppendLogReader::Open(fs, "none", kKind).status().code(), Code::kNotFound);
}

TEST(AppendLog, TooLongARecordIsRefused) {
  PowerCutFileSystem fs;
  auto writer = OpenWriter(fs);
  EXPECT_EQ(writer->Append(1, std::string(kMaxLogPayloadBytes + 1, 'x')).code(), Code::kInvalidArgument);
  EXPECT_EQ(writer->collected_bytes(), 0u);
}

TEST(AppendLog, FullDiskIsCutBackAndWritingGoesOnLater) {
  PowerCutFileSystem fs;
  fs.SetCapacity(100);
  auto writer = OpenWriter(fs);
  ASSERT_TRUE(writer->Append(1, "fits").ok());
  ASSERT_TRUE(writer->Sync().ok());
  const uint64_t size = writer->size();
  ASSERT_TRUE(writer->Append(2, std::string(200, 'x')).ok());
  EXPECT_EQ(writer->Sync().code(), Code::kResourceExhausted);
  EXPECT_FALSE(writer->broken());
  EXPECT_EQ(fs.Size("log").value(), size);
  fs.SetCapacity(1000);
  ASSERT_TRUE(writer->Append(3, "after").ok());
  ASSERT_TRUE(writer->Sync().ok());
  std::vector<std::string> seen;
  OpenWriter(fs, nullptr, &seen);
  EXPECT_EQ(seen, (std::vector<std::string>{"1:fits", "3:after"}));
}

}  // namespace
}  // namespace foreshock
