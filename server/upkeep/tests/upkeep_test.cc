#include "foreshock/server/upkeep/upkeep.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "foreshock/tests/history.h"

namespace foreshock::upkeep {
namespace {

using tests::History;

constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr int64_t kDayNs = 24 * kHourNs;

class UpkeepTest : public testing::Test {
 protected:
  UpkeepTest() {
    options_.store = &history_.store();
    options_.clock = &history_.clock();
    options_.tick = std::chrono::hours(1);
    history_.store().Beat(history_.clock().WallNanos()).IgnoreError();
  }

  void Write(const std::string& run, bool end, const std::string& label = "") {
    wire::Hello hello = tests::SmallHello(run);
    if (!label.empty()) hello.labels[label] = "yes";
    const auto source = history_.Hello(hello);
    for (int64_t step = 0; step < 200; ++step) history_.Put(source, tests::Loss(step, 1));
    if (end) history_.Goodbye(source, 200);
  }
  std::vector<std::string> Runs() {
    std::vector<std::string> names;
    for (const auto& run : history_.store().ListRuns()) names.push_back(run.run);
    std::sort(names.begin(), names.end());
    return names;
  }
  using Names = std::vector<std::string>;

  History history_;
  UpkeepOptions options_;
};

TEST_F(UpkeepTest, ByAgeGoesWhatIsOldAndOverAndNotKept) {
  Write("old", true);
  Write("kept", true, "keep");
  history_.clock().Advance(std::chrono::nanoseconds(9 * kDayNs));
  Write("new", true);
  options_.keep_days = 10;
  const auto upkeep = Upkeep::Start(options_);
  upkeep->Sweep();
  EXPECT_EQ(Runs(), (Names{"kept", "new", "old"})) << "nine days are not ten";
  history_.clock().Advance(std::chrono::nanoseconds(kDayNs + kHourNs));
  upkeep->Sweep();
  EXPECT_EQ(Runs(), (Names{"kept", "new"}));
  EXPECT_EQ(upkeep->counters().deleted_by_age, 1u);
}

TEST_F(UpkeepTest, ARunThatIsHeardIsNeverTooOld) {
  Write("going on", false);
  options_.keep_days = 0.001;
  options_.quiet_seconds = 0;
  options_.silent_after_seconds = 3600;
  const auto upkeep = Upkeep::Start(options_);
  history_.clock().Advance(std::chrono::seconds(1800));
  upkeep->Sweep();
  EXPECT_EQ(Runs(), Names{"going on"}) << "older than keep_days, but running";
  history_.clock().Advance(std::chrono::seconds(3600));
  upkeep->Sweep();
  EXPECT_EQ(Runs(), Names{}) << "silent";
}

TEST_F(UpkeepTest, WhatWasHeardWithinTheQuietTimeStays) {
  Write("yesterday", true);
  options_.keep_days = 0.001;
  const auto upkeep = Upkeep::Start(options_);
  history_.clock().Advance(std::chrono::nanoseconds(23 * kHourNs));
  upkeep->Sweep();
  EXPECT_EQ(Runs(), Names{"yesterday"});
}

TEST_F(UpkeepTest, BySizeTheQuietestGoesAndTheNextOnlyWhenItsSpaceIsBack) {
  for (const char* run : {"first", "second", "third"}) {
    Write(run, true);
    history_.clock().Advance(std::chrono::nanoseconds(kHourNs));
  }
  history_.clock().Advance(std::chrono::nanoseconds(2 * kDayNs));
  ASSERT_TRUE(history_.store().Settle().ok());
  options_.keep_bytes = 1;  // never small enough
  const auto upkeep = Upkeep::Start(options_);
  upkeep->Sweep();
  EXPECT_EQ(Runs(), (Names{"second", "third"}));
  EXPECT_EQ(history_.store().stats().runs_being_freed, 1u);
  upkeep->Sweep();
  EXPECT_EQ(Runs(), (Names{"second", "third"})) << "its space still counts";
  ASSERT_TRUE(history_.store().Settle().ok());
  EXPECT_EQ(history_.store().stats().runs_being_freed, 0u);
  upkeep->Sweep();
  EXPECT_EQ(Runs(), Names{"third"});
  EXPECT_FALSE(upkeep->counters().over_size);
  ASSERT_TRUE(history_.store().Settle().ok());
  upkeep->Sweep();
  ASSERT_TRUE(history_.store().Settle().ok());
  upkeep->Sweep();
  EXPECT_TRUE(upkeep->counters().over_size) << "nothing is left to delete";
  EXPECT_EQ(upkeep->counters().deleted_by_size, 3u);
}

TEST_F(UpkeepTest, ASpaceThatWasNotBackWhenTheServerEndedIsRemembered) {
  Write("gone", true);
  Write("stays", true);
  ASSERT_TRUE(history_.store().Settle().ok());
  ASSERT_TRUE(history_.store().DeleteRun("gone").ok());
  history_.Reopen();
  EXPECT_EQ(history_.store().stats().runs_being_freed, 1u);
  ASSERT_TRUE(history_.store().Settle().ok());
  EXPECT_EQ(history_.store().stats().runs_being_freed, 0u);
  history_.Reopen();
  EXPECT_EQ(history_.store().stats().runs_being_freed, 0u);
}

TEST_F(UpkeepTest, ByHandARunThatIsGoingOnNeedsForce) {
  Write("going on", false);
  Write("over", true);
  const auto upkeep = Upkeep::Start(options_);
  const Status refused = upkeep->DeleteRun("going on", false, "test");
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.message().find("run: going on"), std::string::npos) << refused.message();
  EXPECT_TRUE(upkeep->DeleteRun("over", false, "test").ok());
  EXPECT_TRUE(upkeep->DeleteRun("going on", true, "test").ok());
  EXPECT_EQ(upkeep->DeleteRun("nobody", false, "test").code(), Code::kNotFound);
  EXPECT_EQ(Runs(), Names{});
  EXPECT_EQ(upkeep->counters().deleted_by_hand, 2u);
  EXPECT_EQ(upkeep->counters().failures, 0u);
}

// Frames of all kinds: sealed, open, and those that only memory tables hold.
TEST_F(UpkeepTest, ABackupHoldsAllThatWasWrittenBeforeIt) {
  Write("sealed", true);
  ASSERT_TRUE(history_.store().Settle().ok());
  Write("open", false);
  options_.backup_folder = history_.folder();
  const auto upkeep = Upkeep::Start(options_);
  const auto info = upkeep->Backup("one", "test");
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->folder, history_.folder() + "/one");
  EXPECT_GT(info->bytes, 0u);
  Write("later", true);
  ASSERT_TRUE(history_.store().DeleteRun("sealed").ok()) << "the copy is its own";
  ASSERT_TRUE(history_.store().Settle().ok());

  store::StoreOptions copy;
  copy.folder = info->folder;
  const auto opened = store::Store::Open(copy);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ((*opened)->CountRuns(), 2u);
  for (const char* run : {"sealed", "open"}) {
    int64_t steps = 0;
    store::SeriesQuery query;
    query.run = run;
    query.signal = kLoss;
    ASSERT_TRUE((*opened)
                    ->ReadSeries(query,
                                 [&](const store::SeriesPoint& point) {
                                   EXPECT_EQ(point.step, steps++);
                                   return true;
                                 })
                    .ok());
    EXPECT_EQ(steps, 200) << run;
  }
}

TEST_F(UpkeepTest, BackupsThatCannotBeAreRefused) {
  const auto without = Upkeep::Start(options_);
  const auto none = without->Backup("one", "test");
  EXPECT_EQ(none.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(none.status().message().find("backup_folder"), std::string::npos);
  options_.backup_folder = history_.folder();
  const auto upkeep = Upkeep::Start(options_);
  for (const char* name : {"", ".", "..", ".hidden", "a/b", "../x", "a b", "\xff"}) {
    const auto refused = upkeep->Backup(name, "test");
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument) << name;
    EXPECT_NE(refused.status().message().find("name: "), std::string::npos);
  }
  EXPECT_EQ(upkeep->Backup(std::string(101, 'a'), "test").status().code(), Code::kInvalidArgument);
  ASSERT_TRUE(upkeep->Backup("one", "test").ok());
  EXPECT_EQ(upkeep->Backup("one", "test").status().code(), Code::kAlreadyExists);
  options_.backup_folder = history_.folder() + "/not there";
  EXPECT_FALSE(Upkeep::Start(options_)->Backup("one", "test").ok());
  EXPECT_EQ(upkeep->counters().backups, 1u);
  EXPECT_EQ(upkeep->counters().failures, 1u);
}

TEST_F(UpkeepTest, SweepsByItself) {
  Write("old", true);
  history_.clock().Advance(std::chrono::nanoseconds(3 * kDayNs));
  options_.keep_days = 2;
  options_.tick = std::chrono::milliseconds(1);
  const auto upkeep = Upkeep::Start(options_);
  while (history_.store().CountRuns() > 0) std::this_thread::yield();
  EXPECT_EQ(upkeep->counters().deleted_by_age, 1u);
}

}  // namespace
}  // namespace foreshock::upkeep
