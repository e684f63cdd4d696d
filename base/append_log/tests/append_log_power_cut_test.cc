#include <gtest/gtest.h>

#include <random>

#include "foreshock/base/append_log.h"
#include "foreshock/base/power_cut_file_system.h"

namespace foreshock {
namespace {

constexpr uint32_t kPowerCutKind = LogKind("TEST");

struct Life {
  std::vector<std::string> recovered;
  std::unique_ptr<AppendLogWriter> writer;
};

Life Boot(FileSystem& fs) {
  Life life;
  LogRecovery recovery;
  auto writer = AppendLogWriter::Open(
      fs, "dir/log", kPowerCutKind, [&](const LogRecord& r) { life.recovered.emplace_back(r.payload); },
      &recovery);
  EXPECT_TRUE(writer.ok()) << writer.status().ToString();
  EXPECT_EQ(recovery.corrupt_regions, 0u);
  life.writer = std::move(writer).value();
  return life;
}

// Many lives of one log: each appends, syncs at times, and loses power. What recovers must be what was
// synced, followed by any prefix of what was not. Returns whether it was so in every life.
bool SurvivesPowerCuts(uint64_t seed, bool ignore_syncs) {
  std::mt19937_64 random(seed);
  PowerCutFileSystem fs;
  EXPECT_TRUE(CreateDirs(fs, "dir").ok());
  fs.SetIgnoreSyncs(ignore_syncs);
  std::vector<std::string> written;
  size_t synced = 0;
  for (int life = 0; life < 8; ++life) {
    Life now = Boot(fs);
    if (now.recovered.size() < synced || now.recovered.size() > written.size()) return false;
    written.resize(now.recovered.size());
    if (now.recovered != written) return false;
    synced = written.size();
    for (int i = 0; i < 30; ++i) {
      written.push_back("life " + std::to_string(life) + " record " + std::to_string(i) +
                        std::string(random() % 300, 'p'));
      EXPECT_TRUE(now.writer->Append(1, written.back()).ok());
      if (random() % 3 == 0) {
        EXPECT_TRUE(now.writer->Flush().ok());
      }
      if (random() % 7 == 0) {
        EXPECT_TRUE(now.writer->Sync().ok());
        synced = written.size();
      }
    }
    fs.PowerCut({.keep_some = random() % 4 != 0, .seed = random()});
  }
  return true;
}

TEST(AppendLogPowerCut, EverySyncedRecordIsThereOnceInOrder) {
  for (uint64_t seed = 1; seed <= 40; ++seed) EXPECT_TRUE(SurvivesPowerCuts(seed, false)) << "seed " << seed;
}

// The canary: without fsync the same test fails.
TEST(AppendLogPowerCut, CanaryWithoutSyncsRecordsAreLost) {
  int lost = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) lost += SurvivesPowerCuts(seed, true) ? 0 : 1;
  EXPECT_GT(lost, 0);
}

TEST(AppendLogPowerCut, AFailedSyncBreaksTheLogForGood) {
  PowerCutFileSystem fs;
  ASSERT_TRUE(CreateDirs(fs, "dir").ok());
  Life life = Boot(fs);
  ASSERT_TRUE(life.writer->Append(1, "a").ok());
  ASSERT_TRUE(life.writer->Sync().ok());
  ASSERT_TRUE(life.writer->Append(1, "b").ok());
  fs.FailSyncs(1);
  EXPECT_EQ(life.writer->Sync().code(), Code::kIo);
  EXPECT_TRUE(life.writer->broken());
  EXPECT_FALSE(life.writer->Append(1, "c").ok());
  EXPECT_FALSE(life.writer->Sync().ok());
  fs.PowerCut();
  EXPECT_EQ(Boot(fs).recovered, std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace foreshock
