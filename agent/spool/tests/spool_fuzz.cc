// Seeded random damage to a spool's files: whatever happens to the bytes, opening succeeds, readers give only
// what was appended, in order, each seq once, and say how much is missing. FORESHOCK_FUZZ_SEED and
// FORESHOCK_FUZZ_RUNS widen the search.
#include <cstdlib>
#include <iostream>
#include <random>

#include "foreshock/tests/environment.h"
#include "spool_test_util.h"

namespace foreshock::agent {
namespace {

constexpr uint32_t kRanks = 3;
constexpr uint64_t kSeqs = 40;

void Fill(FileSystem& fs, std::mt19937_64& random) {
  SpoolOptions options;
  options.segment_bytes = 4096;
  auto spool = OpenSpool(fs, options);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(spool->OpenSource(Key(rank), std::string(1 + random() % 300, 'h')).ok());
  }
  for (uint64_t seq = 1; seq <= kSeqs; ++seq) {
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      ASSERT_TRUE(AppendRange(*spool, rank, seq, seq, seq * 7).ok());
  }
  spool->Acknowledge(Key(0), random() % kSeqs);
}

void Damage(PowerCutFileSystem& fs, std::mt19937_64& random) {
  const auto names = fs.List("spool/dir").value();
  const std::string path = "spool/dir/" + names[random() % names.size()];
  const uint64_t size = fs.Size(path).value();
  if (size == 0) return;
  if (random() % 4 == 0) return (void)fs.Truncate(path, random() % size);
  for (uint64_t at = random() % size, n = 1 + random() % 40; n > 0 && at < size; --n, ++at) {
    ASSERT_TRUE(fs.CorruptByte(path, at, static_cast<uint8_t>(1 + random() % 255)).ok());
  }
}

void FuzzOnce(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  PowerCutFileSystem fs;
  Fill(fs, random);
  for (uint64_t n = 1 + random() % 3; n > 0; --n) Damage(fs, random);
  SpoolRecovery recovery;
  auto opened = Spool::Open(fs, "spool/dir", {}, &recovery);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    uint64_t last = 0;
    for (const SpoolRecord& record : ReadAll(**opened, rank)) {
      ASSERT_GT(record.seq, last);
      ASSERT_LE(record.seq, kSeqs);
      EXPECT_EQ(record.payload, Payload(rank, record.seq, record.seq * 7));
      EXPECT_LE(record.lost_before, record.seq - last - 1);
      last = record.seq;
    }
    // And it goes on: what the trainer still has is taken.
    ASSERT_TRUE((*opened)->OpenSource(Key(rank), "h").ok());
    ASSERT_TRUE(AppendRange(**opened, rank, last + 1, kSeqs + 1).ok());
    const auto records = ReadAll(**opened, rank, kSeqs);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].seq, kSeqs + 1);
  }
}

TEST(SpoolFuzz, RandomDamage) {
  const uint64_t first = tests::NumberFromEnvironment("FORESHOCK_FUZZ_SEED", 1);
  const uint64_t runs = tests::NumberFromEnvironment("FORESHOCK_FUZZ_RUNS", 150);
  std::cout << "seeds " << first << " to " << first + runs - 1 << "\n";
  for (uint64_t i = 0; i < runs && !::testing::Test::HasFailure(); ++i) FuzzOnce(first + i);
}

TEST(SpoolFuzz, SegmentTornAtEveryByte) {
  PowerCutFileSystem whole;
  {
    auto spool = OpenSpool(whole);
    ASSERT_TRUE(spool->OpenSource(Key(0), "hello").ok());
    ASSERT_TRUE(AppendRange(*spool, 0, 1, 5).ok());
  }
  const std::string path = "spool/dir/segment-0000000001";
  const std::string bytes = ReadWholeFile(whole, path).value();
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    PowerCutFileSystem fs;
    ASSERT_TRUE(CreateDirs(fs, "spool/dir").ok());
    ASSERT_TRUE(fs.OpenAppend(path).value()->Append(bytes.substr(0, cut)).ok());
    auto spool = OpenSpool(fs);
    const auto durable = spool->OpenSource(Key(0), "hello");
    ASSERT_TRUE(durable.ok());
    ASSERT_EQ(Seqs(ReadAll(*spool, 0)).size(), *durable) << "cut at " << cut;
    ASSERT_TRUE(AppendRange(*spool, 0, 1, 5).ok());
    spool.reset();
    fs.PowerCut();
    EXPECT_EQ(Seqs(ReadAll(*OpenSpool(fs), 0)), (std::vector<uint64_t>{1, 2, 3, 4, 5})) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace foreshock::agent
