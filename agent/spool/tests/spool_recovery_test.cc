#include <gtest/gtest.h>

#include <random>

#include "foreshock/agent/spool.h"
#include "foreshock/tests/environment.h"
#include "spool_test_util.h"

namespace foreshock::agent {
namespace {

constexpr uint64_t kLives = 6;  // of one spool, each ended by a power cut

// What a source was promised, and what it may keep by luck.
struct Model {
  uint64_t promised = 0;  // last seq whose Append returned ok
  uint64_t tried = 0;     // last seq ever given to Append
  uint64_t acked = 0;
};

// Whether the spool holds of a rank exactly acked+1..n with promised <= n <= tried, once, in order and
// unchanged. Records acknowledged may come back (their position is written lazily), never the other way
// round.
::testing::AssertionResult Holds(Spool& spool, uint32_t rank, const Model& model, uint64_t* last) {
  const auto records = ReadAll(spool, rank);
  *last = model.acked;
  if (records.empty()) {
    if (model.promised > model.acked) return ::testing::AssertionFailure() << "rank " << rank << ": all lost";
    return ::testing::AssertionSuccess();
  }
  if (records.front().seq > model.acked + 1) {
    return ::testing::AssertionFailure() << "rank " << rank << " begins with " << records.front().seq;
  }
  uint64_t expected = records.front().seq;
  for (const SpoolRecord& record : records) {
    if (record.seq != expected || record.payload != Payload(rank, expected, expected % 700)) {
      return ::testing::AssertionFailure()
             << "rank " << rank << ": seq " << record.seq << " not " << expected;
    }
    ++expected;
  }
  *last = expected - 1;
  if (*last < model.promised || *last > model.tried) {
    return ::testing::AssertionFailure() << "rank " << rank << " ends at " << *last << ", promised "
                                         << model.promised << ", tried " << model.tried;
  }
  return ::testing::AssertionSuccess();
}

Status AppendOne(Spool& spool, uint32_t rank, uint64_t seq) {
  const std::string payload = Payload(rank, seq, seq % 700);
  const SpoolItem item{seq, 2, payload};
  return spool.Append(Key(rank), {&item, 1});
}

// Several lives of a spool, each ended by a power cut. True when every life found what the ones before
// promised.
bool SurvivesPowerCuts(uint64_t seed, bool ignore_syncs) {
  constexpr uint32_t kSources = 3;
  std::mt19937_64 random(seed);
  PowerCutFileSystem fs;
  SpoolOptions options;
  options.limit_bytes = 256 << 10;
  options.segment_bytes = 4096;
  options.ack_persist_interval_ms = 0;
  OpenSpool(fs, options).reset();  // the folder is there
  fs.SetIgnoreSyncs(ignore_syncs);
  Model models[kSources];
  for (uint64_t life = 0; life < kLives; ++life) {
    SpoolRecovery recovery;
    auto spool = OpenSpool(fs, options, &recovery);
    EXPECT_EQ(recovery.corrupt_regions, 0u);
    for (uint32_t rank = 0; rank < kSources; ++rank) {
      uint64_t last = 0;
      const auto holds = Holds(*spool, rank, models[rank], &last);
      if (!holds) {
        EXPECT_TRUE(ignore_syncs) << holds.message();
        return false;
      }
      models[rank].promised = models[rank].tried = std::max(last, models[rank].promised);
      EXPECT_TRUE(spool->OpenSource(Key(rank), "hello " + std::to_string(rank)).ok());
    }
    for (int i = 0; i < 60; ++i) {
      const auto rank = static_cast<uint32_t>(random() % kSources);
      Model& model = models[rank];
      const uint64_t dice = random() % 20;
      if (dice == 0) fs.FailSyncs(1);
      if (dice == 1) fs.SetCapacity(fs.used_bytes() + random() % 300);
      if (dice == 2) fs.SetCapacity(PowerCutFileSystem::kUnlimited);
      if (dice < 5 && model.acked < model.promised) {
        model.acked += 1 + random() % (model.promised - model.acked);
        spool->Acknowledge(Key(rank), model.acked);
        continue;
      }
      model.tried = std::max(model.tried, model.promised + 1);
      if (AppendOne(*spool, rank, model.promised + 1).ok()) ++model.promised;
    }
    fs.SetCapacity(PowerCutFileSystem::kUnlimited);
    fs.FailSyncs(0);
    fs.PowerCut({.keep_some = random() % 3 != 0, .seed = random()});
    // The process died with the power: its clean-up never happened.
    fs.SetReadOnly(true);
    spool.reset();
    fs.SetReadOnly(false);
  }
  return true;
}

TEST(SpoolRecovery, EveryPromisedRecordIsThereOnceInOrderAfterPowerCuts) {
  // scripts/soak asks for more of them, from another seed.
  const uint64_t first = tests::NumberFromEnvironment("FORESHOCK_SOAK_SEED", 1);
  const uint64_t cuts = tests::NumberFromEnvironment("FORESHOCK_SOAK_CRASHES", 60 * kLives);
  const uint64_t seeds = (cuts + kLives - 1) / kLives;
  std::printf("%llu power cuts, seeds from %llu\n", static_cast<unsigned long long>(seeds * kLives),
              static_cast<unsigned long long>(first));
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    EXPECT_TRUE(SurvivesPowerCuts(seed, false)) << "seed " << seed;
  }
}

// The canary: without fsync the same test fails.
TEST(SpoolRecovery, CanaryWithoutSyncsRecordsAreLost) {
  int lost = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) lost += SurvivesPowerCuts(seed, true) ? 0 : 1;
  EXPECT_GT(lost, 0);
}

TEST(SpoolRecovery, CleanRestartGoesOnWhereItWas) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "hello").ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 10).ok());
  spool->Acknowledge(Key(0), 4);
  spool.reset();
  SpoolRecovery recovery;
  spool = OpenSpool(fs, {}, &recovery);
  EXPECT_EQ(recovery.records, 6u);
  EXPECT_TRUE(recovery.warnings.empty());
  ASSERT_EQ(spool->Sources().size(), 1u);
  EXPECT_EQ(spool->Sources()[0].acked_seq, 4u);
  EXPECT_EQ(spool->Sources()[0].hello, "hello");
  EXPECT_FALSE(spool->Sources()[0].attached);
  EXPECT_EQ(Seqs(ReadAll(*spool, 0, 4)), (std::vector<uint64_t>{5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(spool->OpenSource(Key(0), "hello").value(), 10u);
  ASSERT_TRUE(AppendRange(*spool, 0, 9, 12).ok());
  EXPECT_EQ(Seqs(ReadAll(*spool, 0, 8)), (std::vector<uint64_t>{9, 10, 11, 12}));
}

TEST(SpoolRecovery, AllAcknowledgedLeavesNothing) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 3).ok());
  spool->Acknowledge(Key(0), 3);
  spool.reset();
  spool = OpenSpool(fs);
  EXPECT_EQ(spool->Stats().segments, 0u);
  EXPECT_EQ(spool->Stats().sources, 0u);
}

TEST(SpoolRecovery, ADamagedAckFileOnlySendsRecordsAgain) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 3).ok());
  spool->Acknowledge(Key(0), 2);
  spool.reset();
  ASSERT_TRUE(fs.CorruptByte("spool/dir/acks", 40, 0xFF).ok());
  SpoolRecovery recovery;
  spool = OpenSpool(fs, {}, &recovery);
  EXPECT_EQ(recovery.warnings.size(), 1u);
  EXPECT_EQ(Seqs(ReadAll(*spool, 0)), (std::vector<uint64_t>{1, 2, 3}));
}

// Closed segments have an index file; with it, without it and with a damaged one the spool holds the same.
TEST(SpoolRecovery, IndexFilesOnlySaveTime) {
  PowerCutFileSystem fs;
  SpoolOptions options;
  options.limit_bytes = 256 << 10;
  options.segment_bytes = 4096;
  auto spool = OpenSpool(fs, options);
  for (uint32_t rank : {0, 1}) ASSERT_TRUE(spool->OpenSource(Key(rank), "hello").ok());
  for (uint64_t seq = 1; seq <= 30; ++seq) {
    for (uint32_t rank : {0, 1}) ASSERT_TRUE(AppendRange(*spool, rank, seq, seq, 400).ok());
  }
  spool->Acknowledge(Key(0), 17);
  spool->Acknowledge(Key(1), 3);
  spool.reset();
  std::vector<std::string> index_files;
  const std::vector<std::string> names = fs.List("spool/dir").value();
  for (const std::string& name : names) {
    if (name.ends_with(".index")) index_files.push_back("spool/dir/" + name);
  }
  ASSERT_GT(index_files.size(), 4u);
  const auto check = [&](const std::string& what) {
    SpoolRecovery recovery;
    auto opened = OpenSpool(fs, options, &recovery);
    EXPECT_EQ(recovery.records, 13u + 27u) << what;
    EXPECT_TRUE(recovery.warnings.empty()) << what;
    for (uint32_t rank : {0, 1}) {
      const uint64_t after = rank == 0 ? 17 : 3;
      const auto records = ReadAll(*opened, rank, after);
      ASSERT_EQ(records.size(), 30 - after) << what;
      EXPECT_EQ(records.back().payload, Payload(rank, 30, 400));
    }
  };
  check("with index files");
  ASSERT_TRUE(fs.CorruptByte(index_files[1], 40, 0xFF).ok());
  ASSERT_TRUE(fs.Truncate(index_files[2], 30).ok());
  ASSERT_TRUE(fs.Remove(index_files[3]).ok());
  check("with damaged ones");
  check("with those made good again");
  for (const std::string& path : index_files) ASSERT_TRUE(fs.Remove(path).ok());
  check("without");
}

// An index file that does not belong to the segment as it is must not be believed.
TEST(SpoolRecovery, AnOutdatedIndexFileIsNotBelieved) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "hello").ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 10).ok());
  spool.reset();
  const uint64_t size = fs.Size("spool/dir/segment-0000000001").value();
  ASSERT_TRUE(fs.Truncate("spool/dir/segment-0000000001", size - 5).ok());
  spool = OpenSpool(fs);
  EXPECT_EQ(ReadAll(*spool, 0).size(), 9u);
}

TEST(SpoolRecovery, RottenBytesCostTheRecordTheyHitAndAreCounted) {
  PowerCutFileSystem fs;
  auto spool = OpenSpool(fs);
  ASSERT_TRUE(spool->OpenSource(Key(0), "h").ok());
  ASSERT_TRUE(AppendRange(*spool, 0, 1, 10, 1000).ok());
  // While open: a reader meets it.
  ASSERT_TRUE(fs.CorruptByte("spool/dir/segment-0000000001", 5000, 0xFF).ok());
  auto records = ReadAll(*spool, 0);
  ASSERT_EQ(records.size(), 9u);
  uint64_t lost = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    lost += records[i].lost_before;
    EXPECT_EQ(records[i].seq, i + 1 + lost);
  }
  EXPECT_EQ(lost, 1u);
  EXPECT_EQ(spool->Stats().lost, 1u);
  // After a restart: recovery meets it, and still gives the other nine.
  spool.reset();
  ASSERT_TRUE(fs.Remove("spool/dir/segment-0000000001.index").ok());
  SpoolRecovery recovery;
  spool = OpenSpool(fs, {}, &recovery);
  EXPECT_EQ(recovery.corrupt_regions, 1u);
  EXPECT_EQ(recovery.records, 9u);
  EXPECT_EQ(ReadAll(*spool, 0).size(), 9u);
}

TEST(SpoolRecovery, ForeignFilesAreLeftAlone) {
  PowerCutFileSystem fs;
  OpenSpool(fs).reset();
  ASSERT_TRUE(WriteFileAtomically(fs, "spool/dir/notes.txt", "mine").ok());
  auto spool = OpenSpool(fs);
  EXPECT_EQ(ReadWholeFile(fs, "spool/dir/notes.txt").value(), "mine");
  spool.reset();
  ASSERT_TRUE(WriteFileAtomically(fs, "spool/dir/segment-0000000007", std::string(500, 'x')).ok());
  SpoolRecovery recovery;
  spool = OpenSpool(fs, {}, &recovery);
  EXPECT_EQ(recovery.torn_bytes, 500u);
}

}  // namespace
}  // namespace foreshock::agent
