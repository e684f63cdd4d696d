// Archives: what goes in comes out, and whatever is not whole is refused, with the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "entry_codec.h"
#include "foreshock/archive/bounds.h"
#include "foreshock/archive/reader.h"
#include "foreshock/archive/writer.h"
#include "foreshock/base/append_log.h"
#include "foreshock/base/append_log_format.h"

namespace foreshock::archive {
namespace {

constexpr uint32_t kTag = 0x12345678;
constexpr uint32_t kKind = 'A' | 'R' << 8 | 'C' << 16 | uint32_t{'V'} << 24;

std::vector<Entry> SomeEntries() {
  std::vector<Entry> entries;
  entries.push_back(Begin{"gpt/7", 5, 6, "foreshockd 1"});
  entries.push_back(Attempt{1, "first", 2, 7});
  entries.push_back(Process{{1, 0, 1}, "hello", 8, "counters"});
  entries.push_back(Process{{1, 3, 2}, "another", -8, ""});
  entries.push_back(Note{"alert", std::string("k\0y", 3), "{}", true});
  entries.push_back(Record{RecordKind::kFrame, {1, 0, 1}, std::string(3000, 'x'), 0, 0, {}});
  entries.push_back(Record{RecordKind::kFrame, {1, kMergedRank, 0}, "merged", 0, 0, {}});
  entries.push_back(Record{RecordKind::kEvent, {1, 3, 2}, "", 0, 0, {}});
  entries.push_back(Record{RecordKind::kQuarantined, {1, 3, 2}, "bad", 17, UINT64_MAX, "why"});
  entries.push_back(Unmerged{1, -4});
  entries.push_back(Counters{{1, 0, 1}, "counted"});
  entries.push_back(Note{"audit", "0001", "{}", false});
  return entries;
}

std::string Written(const std::vector<Entry>& entries, bool finish = true) {
  std::string bytes;
  Writer writer(
      [&](std::string_view piece) {
        bytes += piece;
        return OkStatus();
      },
      kTag);
  for (const Entry& entry : entries) EXPECT_TRUE(writer.Add(entry).ok());
  if (finish) {
    EXPECT_TRUE(writer.Finish().ok());
    EXPECT_EQ(writer.bytes(), bytes.size());
  }
  return bytes;
}

// One record more, with checksums that hold: what a liar would write.
std::string Forged(std::string bytes, uint8_t type, std::string_view payload) {
  append_log::AppendRecord(type, payload, kTag, bytes.size(), &bytes);
  return bytes;
}

struct Read {
  Status status;
  std::vector<Entry> entries;
  Counts counts;
  uint64_t skipped = 0;
};
Read ReadBack(std::string_view bytes, size_t piece = 1 << 20) {
  Read read;
  Reader reader;
  while (!bytes.empty() && read.status.ok()) {
    read.status = reader.Feed(bytes.substr(0, piece), [&](Entry entry) {
      read.entries.push_back(std::move(entry));
      return OkStatus();
    });
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  if (read.status.ok()) read.status = reader.Finish();
  read.counts = reader.counts();
  read.skipped = reader.skipped();
  return read;
}

std::string BeforeEnd() {
  std::vector<Entry> entries = SomeEntries();
  std::string whole = Written(entries);
  // The closing entry is the last record: its payload is what another archive's of the same counts is.
  std::string open;
  append_log::AppendFileHeader(kKind, kTag, &open);
  Reader reader;
  uint64_t last = 0;
  EXPECT_TRUE(reader.Feed(whole, [](Entry) { return OkStatus(); }).ok());
  for (uint64_t at = kLogHeaderBytes; at < whole.size();) {
    append_log::RecordHeader header{};
    EXPECT_TRUE(append_log::ParseRecordHeader(std::string_view(whole).substr(at), at, &header));
    last = at;
    at += kLogRecordOverhead + header.length;
  }
  return whole.substr(0, last);
}

TEST(Archive, WhatGoesInComesOut) {
  const std::string bytes = Written(SomeEntries());
  ASSERT_TRUE(LooksLikeArchive(bytes));
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100}, bytes.size()}) {
    const Read read = ReadBack(bytes, piece);
    ASSERT_TRUE(read.status.ok()) << read.status.ToString();
    // Encoded again they are the same bytes: no field is lost.
    EXPECT_EQ(Written(read.entries), bytes);
    EXPECT_EQ(read.counts.frames, 1u);
    EXPECT_EQ(read.counts.merged_frames, 1u);
    EXPECT_EQ(read.counts.notes, 2u);
  }
  const Read read = ReadBack(bytes);
  const auto& quarantined = std::get<Record>(read.entries[8]);
  EXPECT_EQ(quarantined.seq, UINT64_MAX);
  EXPECT_EQ(quarantined.type, 17u);
  EXPECT_EQ(quarantined.reason, "why");
  EXPECT_EQ(std::get<Unmerged>(read.entries[9]).step, -4);
  EXPECT_FALSE(std::get<Note>(read.entries[11]).of_run);
}

// Payloads that no writer of ours makes.
TEST(Archive, TheEndCountsEveryEntry) {
  const std::string open = BeforeEnd();
  const auto end = [](uint8_t entries) {  // and one of everything as in SomeEntries
    const uint8_t numbers[] = {entries, 1, 2, 1, 1, 1, 1, 1, 2, 1};
    std::string payload;
    for (size_t i = 0; i < std::size(numbers); ++i) {
      payload += static_cast<char>((i + 1) << 3);
      payload += static_cast<char>(numbers[i]);
    }
    return payload;
  };
  EXPECT_TRUE(ReadBack(Forged(open, 10, end(12))).status.ok());
  EXPECT_EQ(ReadBack(Forged(open, 10, end(11))).status.code(), Code::kDataLoss);
  // One that may be passed over counts, too.
  const std::string more = Forged(open, 200, "of later");
  EXPECT_EQ(ReadBack(Forged(more, 10, end(12))).status.code(), Code::kDataLoss);
  EXPECT_TRUE(ReadBack(Forged(more, 10, end(13))).status.ok());
}

TEST(Archive, BeginComesFirstAndIsShort) {
  std::string header;
  append_log::AppendFileHeader(kKind, kTag, &header);
  EXPECT_EQ(ReadBack(Forged(header, 200, "of later")).status.code(), Code::kDataLoss);
  // Refused by its length, before its bytes have come.
  const std::string long_one = Forged(header, 1, std::string(70'000, 'x'));
  EXPECT_EQ(ReadBack(std::string_view(long_one).substr(0, 100)).status.code(), Code::kDataLoss);
  EXPECT_NE(ReadBack(std::string_view(long_one).substr(0, 100)).status.message().find("too long"),
            std::string::npos);
}

TEST(Archive, AnAbsentFieldIsNothing) {
  std::string bytes = Forged(BeforeEnd(), 8, std::string("\x0a\x01k", 3));
  Reader reader;
  Entry last;
  ASSERT_TRUE(reader
                  .Feed(bytes,
                        [&](Entry entry) {
                          last = std::move(entry);
                          return OkStatus();
                        })
                  .ok());
  EXPECT_EQ(std::get<Note>(last).kind, "k");
  EXPECT_FALSE(std::get<Note>(last).of_run);
}

TEST(Archive, EveryTornTailIsSeen) {
  const std::string bytes = Written(SomeEntries());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Read read = ReadBack(std::string_view(bytes).substr(0, size));
    EXPECT_EQ(read.status.code(), size == 0 ? Code::kInvalidArgument : Code::kDataLoss) << size;
  }
}

TEST(Archive, EveryDamagedByteIsSeen) {
  const std::string bytes = Written(SomeEntries());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int bit : {0, 7}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const Read read = ReadBack(damaged);
      EXPECT_FALSE(read.status.ok()) << at;
      EXPECT_LE(read.entries.size(), SomeEntries().size());
    }
  }
}

TEST(Archive, PiecesMovedTwiceOrLeftOutAreSeen) {
  const std::string bytes = Written(SomeEntries());
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string other = bytes;
    const size_t from = random() % bytes.size(), count = 1 + random() % 400;
    if (i % 2 == 0) {
      other.erase(from, count);
    } else {
      other.insert(random() % bytes.size(), bytes.substr(from, count));
    }
    if (other != bytes) {
      EXPECT_FALSE(ReadBack(other).status.ok()) << i;
    }
  }
}

// What a reader would not take is not written.
TEST(Archive, NamesNoMoreThanItMay) {
  Writer writer([](std::string_view) { return OkStatus(); }, kTag);
  ASSERT_TRUE(writer.Add(Begin{"run", 1, 2, "test"}).ok());
  ASSERT_TRUE(writer.Add(Attempt{1, "a", 1, 1}).ok());
  std::string bytes;
  append_log::AppendFileHeader(kKind, kTag, &bytes);
  append_log::AppendRecord(1, Encode(Begin{"run", 1, 2, "test"}), kTag, bytes.size(), &bytes);
  append_log::AppendRecord(2, Encode(Attempt{1, "a", 1, 1}), kTag, bytes.size(), &bytes);
  for (uint32_t number = 1; number <= kMostProcessesOfRank; ++number) {
    const Process process{{1, 5, number}, "hello", 1, ""};
    ASSERT_TRUE(writer.Add(process).ok()) << number;
    append_log::AppendRecord(3, Encode(process), kTag, bytes.size(), &bytes);
  }
  const Process more{{1, 5, 5000}, "hello", 1, ""};
  const Status refused = writer.Add(more);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "archive: processes of attempt 1 rank 5: more than 1024, which an archive may name");
  EXPECT_TRUE(writer.Add(Process{{1, 6, 5000}, "hello", 1, ""}).ok()) << "another rank may";
  EXPECT_EQ(ReadBack(bytes).status.code(), Code::kDataLoss) << "torn, so far";
  append_log::AppendRecord(3, Encode(more), kTag, bytes.size(), &bytes);
  EXPECT_EQ(ReadBack(bytes).status.code(), Code::kResourceExhausted);

  Bounds bounds;
  for (size_t i = 0; i < kMostAttempts; ++i) ASSERT_TRUE(bounds.Take(Attempt{}).ok());
  EXPECT_EQ(bounds.Take(Attempt{}).code(), Code::kResourceExhausted);
  for (size_t i = 0; i < kMostUnmerged; ++i) ASSERT_TRUE(bounds.Take(Unmerged{}).ok());
  EXPECT_EQ(bounds.Take(Unmerged{}).code(), Code::kResourceExhausted);
  for (uint32_t i = 1; i <= kMostProcesses; ++i) {
    Process process;
    process.place = {1, i, 1};
    ASSERT_TRUE(bounds.Take(process).ok()) << i;
  }
  EXPECT_EQ(bounds.Take(more).code(), Code::kResourceExhausted);
}

TEST(Archive, SomethingElseIsNoArchive) {
  EXPECT_EQ(ReadBack("step,loss\n1,2\n").status.code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadBack("FSK1").status.code(), Code::kInvalidArgument);
  std::string log;  // an append log of another kind
  append_log::AppendFileHeader('S' | 'P' << 8 | 'O' << 16 | 'L' << 24, kTag, &log);
  EXPECT_EQ(ReadBack(log).status.code(), Code::kInvalidArgument);
  EXPECT_FALSE(LooksLikeArchive(log));
}

TEST(Archive, OthersRecordsInItsPlaceAreSeen) {
  // A whole archive's tail behind the head of another one, at the very same places.
  std::string other;
  Writer writer(
      [&](std::string_view piece) {
        other += piece;
        return OkStatus();
      },
      kTag + 1);
  for (const Entry& entry : SomeEntries()) ASSERT_TRUE(writer.Add(entry).ok());
  ASSERT_TRUE(writer.Finish().ok());
  const std::string bytes = Written(SomeEntries());
  ASSERT_EQ(other.size(), bytes.size());
  EXPECT_EQ(ReadBack(bytes.substr(0, 200) + other.substr(200)).status.code(), Code::kDataLoss);
}

TEST(Archive, LyingLengthsAndCounts) {
  // A giant length under a check that holds for it cannot be: the limit comes with the check.
  std::string giant = BeforeEnd();
  std::string record;
  append_log::AppendRecord(4, "x", kTag, giant.size(), &record);
  for (const char top : {'\x05', '\x7f', '\xff'}) {
    std::string lying = record;
    lying[3] = top;
    const Read read = ReadBack(giant + lying);
    EXPECT_EQ(read.status.code(), Code::kDataLoss);
    EXPECT_NE(read.status.message().find("length"), std::string::npos);
  }
  // One frame more than there are.
  const std::string end_of_none = Forged(BeforeEnd(), 10, "");
  EXPECT_EQ(ReadBack(end_of_none).status.code(), Code::kDataLoss);
  EXPECT_NE(ReadBack(end_of_none).status.message().find("counts"), std::string::npos);
  // Something behind the end.
  EXPECT_EQ(ReadBack(Written(SomeEntries()) + "x").status.code(), Code::kDataLoss);
  EXPECT_EQ(ReadBack(Forged(Written(SomeEntries()), 200, "")).status.code(), Code::kDataLoss);
}

TEST(Archive, Disorder) {
  const std::vector<Entry> good = SomeEntries();
  const auto status = [](const std::vector<Entry>& entries) { return ReadBack(Written(entries)).status; };
  ASSERT_TRUE(status(good).ok());
  EXPECT_EQ(status({}).code(), Code::kDataLoss);
  EXPECT_EQ(status({good[1]}).code(), Code::kDataLoss);
  EXPECT_EQ(status({good[0], good[0]}).code(), Code::kDataLoss);
  EXPECT_EQ(status({good[0], good[2]}).code(), Code::kDataLoss);
  EXPECT_EQ(status({good[0], good[1], good[1]}).code(), Code::kDataLoss);
  EXPECT_EQ(status({good[0], good[1], good[5]}).code(), Code::kDataLoss);
  EXPECT_EQ(status({good[0], good[1], good[2], good[2]}).code(), Code::kDataLoss);
  EXPECT_EQ(status({good[0], good[6]}).code(), Code::kDataLoss);
  EXPECT_EQ(status({good[0], good[9]}).code(), Code::kDataLoss);
  EXPECT_EQ(status({good[0], good[10]}).code(), Code::kDataLoss);
  EXPECT_EQ(status({good[0], good[1], Process{{1, kMergedRank, 0}, "", 0, ""}}).code(), Code::kDataLoss);
}

TEST(Archive, LaterVersions) {
  std::string head;
  append_log::AppendFileHeader(kKind, kTag, &head);
  EXPECT_EQ(ReadBack(Forged(head, 1, "\x08\x02\x12\x01r")).status.code(), Code::kUnimplemented);
  EXPECT_EQ(ReadBack(Forged(head, 1, "\x12\x01r")).status.code(), Code::kDataLoss);  // without a version
  EXPECT_EQ(ReadBack(Forged(BeforeEnd(), 11, "")).status.code(), Code::kUnimplemented);
  EXPECT_EQ(ReadBack(Forged(BeforeEnd(), 127, "")).status.code(), Code::kUnimplemented);
  // What says that it may be skipped is, and what follows is read.
  std::string optional = Forged(BeforeEnd(), 128, "who knows");
  const std::string whole = Written(SomeEntries());
  std::string end_payload = whole.substr(BeforeEnd().size() + kLogRecordOverhead);
  ++end_payload[1];  // one entry more
  const Read read = ReadBack(Forged(optional, 10, end_payload));
  EXPECT_TRUE(read.status.ok()) << read.status.ToString();
  EXPECT_EQ(read.skipped, 1u);
  // Fields that are not known, or of another type than ours, are passed over.
  EXPECT_EQ(ReadBack(Forged(head, 1,
                            "\x08\x01\x12\x01r\x18\x05\xf2\x01\x01z\x2d"
                            "abcd"))
                .status.code(),
            Code::kDataLoss);  // torn, but readable so far
  EXPECT_EQ(
      ReadBack(Forged(head, 1, "\x08\x01\x12\x05r")).status.message().find("malformed") != std::string::npos,
      true);
}

TEST(Archive, AnEntryTooLargeIsRefusedWhenWritten) {
  Writer writer([](std::string_view) { return OkStatus(); }, kTag);
  ASSERT_TRUE(writer.Add(SomeEntries()[0]).ok());
  EXPECT_EQ(writer.Add(Note{"a", "b", std::string(kMaxLogPayloadBytes, 'x'), true}).code(),
            Code::kInvalidArgument);
}

TEST(Archive, TheSinksErrorIsTold) {
  Writer writer([](std::string_view) { return Status(Code::kIo, "full"); }, kTag);
  ASSERT_TRUE(writer.Add(SomeEntries()[0]).ok());
  EXPECT_EQ(writer.Finish().code(), Code::kIo);
}

}  // namespace
}  // namespace foreshock::archive
