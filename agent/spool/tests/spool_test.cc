#include "foreshock/agent/spool.h"

#include <gtest/gtest.h>

#include "spool_test_util.h"

namespace foreshock::agent {
namespace {

using std::chrono::nanoseconds;

// 64 KiB in all, segments of 8 KiB.
SpoolOptions Small() {
  SpoolOptions options;
  options.limit_bytes = 64 << 10;
  options.segment_bytes = 8 << 10;
  return options;
}

TEST(Spool, GivesEachSourceItsRecordsInOrder) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_EQ(spool->OpenSource(Key(0), "hello 0").value(), 0u);
  ASSERT_EQ(spool->OpenSource(Key(1), "hello 1").value(), 0u);
  for (uint64_t seq = 1; seq <= 20; ++seq) {
    ASSERT_TRUE(AppendRange(*spool, 0, seq, seq).ok());
    ASSERT_TRUE(AppendRange(*spool, 1, 2 * seq, 2 * seq + 1).ok());
  }
  const auto zero = ReadAll(*spool, 0);
  ASSERT_EQ(zero.size(), 20u);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(zero[i].seq, i + 1);
    EXPECT_EQ(zero[i].type, 2);
    EXPECT_EQ(zero[i].payload, Payload(0, i + 1));
    EXPECT_EQ(zero[i].lost_before, 0u);
  }
  EXPECT_EQ(ReadAll(*spool, 1).size(), 40u);
  EXPECT_EQ(Seqs(ReadAll(*spool, 0, 18)), (std::vector<uint64_t>{19, 20}));
  EXPECT_EQ(spool->Sources()[1].hello, "hello 1");
  EXPECT_EQ(spool->Sources()[1].durable_seq, 41u);
}

TEST(Spool, AReaderGoesOnWhereNewRecordsCome) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs, Small());
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  auto reader = spool->Read(Key(0), 0);
  SpoolRecord record;
  EXPECT_FALSE(reader->Next(&record, nanoseconds(0)).value());
  for (uint64_t seq = 1; seq <= 40; ++seq) {  // over several segments
    ASSERT_TRUE(AppendRange(*spool, 0, seq, seq, 500).ok());
    ASSERT_TRUE(reader->Next(&record, nanoseconds(0)).value()) << seq;
    EXPECT_EQ(record.payload, Payload(0, seq, 500));
    EXPECT_FALSE(reader->Next(&record, nanoseconds(0)).value());
  }
  EXPECT_GT(spool->Stats().segments, 2u);
}

TEST(Spool, RepetitionsAreIgnored) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 5).ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 3, 7).ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 2).ok());
  EXPECT_EQ(Seqs(ReadAll(*spool, 0)), (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(spool->Stats().repeated, 5u);
  EXPECT_EQ(spool->OpenSource(Key(0), "h").value(), 7u);
}

TEST(Spool, RefusesWhatMakesNoSense) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs, Small());
  EXPECT_EQ(AppendRange(*spool, 0, 1, 1).code(), Code::kNotFound);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  const SpoolItem reserved{1, 0xF0, "x"};
  EXPECT_EQ(spool->Append(Key(0), {&reserved, 1}).code(), Code::kInvalidArgument);
  // Larger than the whole spool: no waiting will help.
  EXPECT_EQ(AppendRange(*spool, 0, 1, 1, 70'000).code(), Code::kInvalidArgument);
  SpoolRecovery recovery;
  EXPECT_EQ(Spool::Open(fs, "other", {.limit_bytes = 10}, &recovery).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Spool::Open(fs, "spool/dir", {}, &recovery).status().code(), Code::kFailedPrecondition);
}

TEST(Spool, DeletesSegmentsThatAreAcknowledgedByAll) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs, Small());
  for (uint32_t rank : {0, 1}) ASSERT_TRUE(spool->OpenSource(Key(rank), "h").ok());
  for (uint64_t seq = 1; seq <= 20; ++seq) {
    for (uint32_t rank : {0, 1}) ASSERT_TRUE(AppendRange(*spool, rank, seq, seq, 1000).ok());
  }
  const uint64_t before = spool->Stats().bytes;
  EXPECT_GT(before, 40'000u);
  spool->Acknowledge(Key(0), 20);
  EXPECT_EQ(spool->Stats().bytes, before);  // rank 1 still needs every segment
  spool->Acknowledge(Key(1), 10);
  EXPECT_LT(spool->Stats().bytes, before * 7 / 10);
  EXPECT_EQ(Seqs(ReadAll(*spool, 1, 10)).front(), 11u);
  spool->Acknowledge(Key(1), 20);
  spool->Acknowledge(Key(1), 5);  // positions only rise
  EXPECT_EQ(spool->Stats().pending, 0u);
  EXPECT_LT(spool->Stats().bytes, 8u << 10);
  EXPECT_LE(fs.List("spool/dir").value().size(), 4u);  // LOCK, acks, at most one segment
}

TEST(Spool, AtItsLimitItRefusesAndGoesOnWhenAcknowledged) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs, Small());
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  uint64_t seq = 0;
  Status status;
  while ((status = AppendRange(*spool, 0, seq + 1, seq + 1, 1000)).ok()) ++seq;
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_GT(seq, 50u);
  EXPECT_LE(spool->Stats().bytes, 64u << 10);
  EXPECT_EQ(spool->Stats().refused_limit, 1u);
  EXPECT_EQ(ReadAll(*spool, 0).size(), seq);  // nothing acknowledged was lost
  spool->Acknowledge(Key(0), seq / 2);
  ASSERT_TRUE(AppendRange(*spool, 0, seq + 1, seq + 1, 1000).ok());
  EXPECT_EQ(ReadAll(*spool, 0, seq / 2).back().seq, seq + 1);
}

TEST(Spool, FullDiskRefusesAndRecoversByItself) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 3, 1000).ok());
  fs.SetCapacity(fs.used_bytes() + 500);
  for (int i = 0; i < 3; ++i) {
    const Status full = AppendRange(*spool, 0, 4, 5, 1000);
    EXPECT_EQ(full.code(), Code::kResourceExhausted);
    EXPECT_NE(full.message().find("No space left on device"), std::string::npos);
  }
  EXPECT_EQ(Seqs(ReadAll(*spool, 0)), (std::vector<uint64_t>{1, 2, 3}));
  fs.SetCapacity(PowerCutFileSystem::kUnlimited);
  ASSERT_TRUE(AppendRange(*spool, 0, 4, 5, 1000).ok());
  EXPECT_EQ(Seqs(ReadAll(*spool, 0)), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(spool->Stats().refused_disk, 3u);
}

TEST(Spool, DiskFullFromTheFirstByteRecoversToo) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  fs.SetCapacity(fs.used_bytes());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(AppendRange(*spool, 0, 1, 1).code(), Code::kResourceExhausted);
  fs.SetCapacity(PowerCutFileSystem::kUnlimited);
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 1).ok());
  EXPECT_EQ(ReadAll(*spool, 0).size(), 1u);
  EXPECT_EQ(spool->Stats().segments, 1u);
}

TEST(Spool, AFailedSyncPromisesNothingAndIsTriedAgainInANewSegment) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 2).ok());
  fs.FailSyncs(1);
  EXPECT_EQ(AppendRange(*spool, 0, 3, 4).code(), Code::kIo);
  EXPECT_EQ(Seqs(ReadAll(*spool, 0)), (std::vector<uint64_t>{1, 2}));
  ASSERT_TRUE(AppendRange(*spool, 0, 3, 5).ok());
  EXPECT_EQ(Seqs(ReadAll(*spool, 0)), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(spool->Stats().segments, 2u);
  spool.reset();
  fs.PowerCut();
  spool = OpenSpool(fs);
  EXPECT_EQ(Seqs(ReadAll(*spool, 0)), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
}

TEST(Spool, ReadOnlyDiskIsAnErrorNotACrash) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  fs.SetReadOnly(true);
  EXPECT_EQ(AppendRange(*spool, 0, 1, 1).code(), Code::kPermissionDenied);
  fs.SetReadOnly(false);
  EXPECT_TRUE(AppendRange(*spool, 0, 1, 1).ok());
}

TEST(Spool, ForgetsSourcesThatAreGoneAndAcknowledged) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  const uint64_t generation = spool->WaitForSources(0, nanoseconds(0));
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  EXPECT_NE(spool->WaitForSources(generation, nanoseconds(0)), generation);
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 3).ok());
  auto reader = spool->Read(Key(0), 0);
  spool->CloseSource(Key(0));
  EXPECT_EQ(spool->Stats().sources, 1u);
  spool->Acknowledge(Key(0), 99);  // more than there is
  EXPECT_EQ(spool->Stats().sources, 0u);
  SpoolRecord record;
  EXPECT_EQ(reader->Next(&record, std::chrono::hours(1)).status().code(), Code::kNotFound);
}

// A trainer must hear what arrived of what it gave up: its count of dropped frames hangs on it.
TEST(Spool, RemembersTheLastPositionOfForgottenSources) {
  PowerCutFileSystem fs;
  SpoolOptions options = Small();
  options.ack_persist_interval_ms = 1'000'000;
  auto spool = OpenSpool(fs, options);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 60, 500).ok());
  spool->Acknowledge(Key(0), 60);
  spool->CloseSource(Key(0));
  EXPECT_TRUE(spool->Sources().empty());
  EXPECT_EQ(spool->OpenSource(Key(0), "h").value(), 60u);
  ASSERT_TRUE(AppendRange(*spool, 0, 61, 62).ok());
  spool->Acknowledge(Key(0), 62);
  spool->CloseSource(Key(0));
  spool.reset();
  spool = OpenSpool(fs, options);
  EXPECT_EQ(spool->OpenSource(Key(0), "h").value(), 62u) << "after a clean end";
}

TEST(Spool, WritesPositionsDownBeforeTheLastRecordsGo) {
  PowerCutFileSystem fs;
  SpoolOptions options = Small();
  options.ack_persist_interval_ms = 1'000'000;
  auto spool = OpenSpool(fs, options);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  for (uint64_t seq = 1; seq < 60; seq += 10) ASSERT_TRUE(AppendRange(*spool, 0, seq, seq + 9, 500).ok());
  ASSERT_GT(spool->Stats().segments, 2u);
  spool->Acknowledge(Key(0), 60);
  EXPECT_LE(spool->Stats().segments, 1u);
  fs.PowerCut({});
  fs.SetReadOnly(true);  // the process died with the power
  spool.reset();
  fs.SetReadOnly(false);
  spool = OpenSpool(fs, options);
  EXPECT_EQ(spool->OpenSource(Key(0), "h").value(), 60u);
}

// While the server is away one run that sends much must not take everything.
TEST(Spool, ARunTakesNoMoreThanItsShare) {
  PowerCutFileSystem fs;
  SpoolOptions options;
  options.limit_bytes = 256 << 10;
  options.segment_bytes = 4096;
  auto spool = OpenSpool(fs, options);
  SourceKey chatty = Key(0), quiet = Key(1);
  quiet.run = "quiet";
  ASSERT_TRUE(spool->OpenSource(chatty, "h").ok());
  const std::string payload(1000, 'x');
  const auto append = [&](const SourceKey& key, uint64_t seq) {
    const SpoolItem item{seq, 2, payload};
    return spool->Append(key, {&item, 1});
  };
  uint64_t last = 0;
  while (append(chatty, last + 1).ok()) ++last;
  EXPECT_GT(last, 220u) << "alone it takes nearly all";
  // Somebody else comes while the server is away: there is room for the beginning of his run ...
  ASSERT_TRUE(spool->OpenSource(quiet, "h").ok());
  uint64_t other = 0;
  while (append(quiet, other + 1).ok()) ++other;
  EXPECT_GE(other, 10u);
  // ... and what becomes free is his until both have the same.
  spool->Acknowledge(chatty, last / 4);
  EXPECT_EQ(append(chatty, last + 1).code(), Code::kResourceExhausted);
  EXPECT_EQ(spool->Stats().refused_share, 1u);
  const uint64_t before = other;
  while (append(quiet, other + 1).ok()) ++other;
  EXPECT_GT(other, before + 40);
  spool->Acknowledge(chatty, last);
  EXPECT_TRUE(append(chatty, last + 1).ok());
}

TEST(Spool, InspectionShowsWhatIsThereWhileInUse) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs, Small());
  ASSERT_TRUE(spool->OpenSource(Key(3), "hello 3").ok());
  ASSERT_TRUE(AppendRange(*spool, 3, 1, 30, 500).ok());
  ASSERT_TRUE(AppendRange(*spool, 3, 31, 40, 500).ok());
  const auto summary = InspectSpool(fs, "spool/dir");
  ASSERT_TRUE(summary.ok());
  ASSERT_EQ(summary->sources.size(), 1u);
  EXPECT_EQ(summary->sources[0].key, Key(3));
  EXPECT_EQ(summary->sources[0].hello, "hello 3");
  EXPECT_EQ(summary->sources[0].durable_seq, 40u);
  ASSERT_EQ(summary->segments.size(), 2u);
  EXPECT_EQ(summary->segments[0].records + summary->segments[1].records, 40u);
}

}  // namespace
}  // namespace foreshock::agent
