#include "foreshock/server/upkeep/upkeep.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "due.h"
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
  // A run whose frames do not fit beside others' in one block.
  void WriteLarge(const std::string& run) {
    const auto source = history_.Hello(run);
    std::vector<float> noise(2000);
    for (int64_t step = 0; step < 200; ++step) {
      for (size_t i = 0; i < noise.size(); ++i)
        noise[i] = static_cast<float>((step * 7919 + static_cast<int64_t>(i) * 104729) % 65521) / 7;
      history_.Put(source, tests::Step(step, {tests::Heads(kLogitMax, 0, noise)}));
    }
    history_.Goodbye(source, 200);
  }
  // As after a day of service.
  std::unique_ptr<Upkeep> StartTrusted() {
    auto upkeep = Upkeep::Start(options_);
    history_.clock().Advance(std::chrono::nanoseconds(static_cast<int64_t>(options_.quiet_seconds * 1e9)));
    return upkeep;
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
  options_.keep_days = 11;
  const auto upkeep = StartTrusted();
  upkeep->Sweep();
  EXPECT_EQ(Runs(), (Names{"kept", "new", "old"})) << "ten days are not eleven";
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
  const auto upkeep = StartTrusted();
  Write("today", true);
  history_.clock().Advance(std::chrono::nanoseconds(23 * kHourNs));
  upkeep->Sweep();
  EXPECT_EQ(Runs(), Names{"today"});
}

TEST_F(UpkeepTest, NothingGoesOnTheFirstDayOfService) {
  Write("old", true);
  history_.clock().Advance(std::chrono::nanoseconds(100 * kDayNs));
  options_.keep_days = 1;
  options_.keep_bytes = 1;
  const auto upkeep = Upkeep::Start(options_);
  history_.clock().Advance(std::chrono::nanoseconds(23 * kHourNs));
  upkeep->Sweep();
  EXPECT_EQ(Runs(), Names{"old"}) << "an agent may still hold the rest of it";
  history_.clock().Advance(std::chrono::nanoseconds(kHourNs));
  upkeep->Sweep();
  EXPECT_EQ(Runs(), Names{});
}

TEST_F(UpkeepTest, AClockThatJumpsDeletesNothing) {
  options_.keep_days = 30;
  const auto upkeep = StartTrusted();
  upkeep->Sweep();
  Write("going on", false);
  Write("over", true);
  history_.clock().JumpWall(std::chrono::nanoseconds(3650 * kDayNs));
  upkeep->Sweep();
  history_.clock().Advance(std::chrono::nanoseconds(23 * kHourNs));
  upkeep->Sweep();
  EXPECT_EQ(Runs(), (Names{"going on", "over"}));
  EXPECT_EQ(upkeep->counters().clock_jumps, 1u);
  history_.clock().JumpWall(std::chrono::nanoseconds(-3650 * kDayNs));
  upkeep->Sweep();
  history_.clock().Advance(std::chrono::nanoseconds(25 * kHourNs));
  upkeep->Sweep();
  EXPECT_EQ(Runs(), (Names{"going on", "over"})) << "two days old, the clock is right again";
  EXPECT_EQ(upkeep->counters().clock_jumps, 2u);
}

TEST_F(UpkeepTest, WhatCameWhenTheClockShowed1970HasNoAge) {
  const int64_t back = history_.clock().WallNanos();
  history_.clock().JumpWall(std::chrono::nanoseconds(-back));
  Write("then", true);
  history_.clock().JumpWall(std::chrono::nanoseconds(back));
  options_.keep_days = 30;
  const auto upkeep = StartTrusted();
  upkeep->Sweep();
  EXPECT_EQ(Runs(), Names{"then"});
}

// A reader that looks at a time before the deletion holds the bytes.
TEST_F(UpkeepTest, SpaceThatAReaderHoldsIsNotBack) {
  WriteLarge("large");
  ASSERT_TRUE(history_.store().Settle().ok());
  store::FrameQuery query;
  query.run = "large";
  ASSERT_TRUE(history_.store()
                  .ReadFrames(query,
                              [&](const store::StoredFrame&) {
                                EXPECT_TRUE(history_.store().DeleteRun("large").ok());
                                EXPECT_TRUE(history_.store().Settle().ok());
                                EXPECT_EQ(history_.store().stats().runs_being_freed, 1u);
                                return false;
                              })
                  .ok());
  ASSERT_TRUE(history_.store().Settle().ok());
  EXPECT_EQ(history_.store().stats().runs_being_freed, 0u);
}

TEST_F(UpkeepTest, ARunThatCameBackMeanwhileStays) {
  Write("run", true);
  const auto seen = *history_.store().GetRun("run");
  history_.clock().Advance(std::chrono::seconds(1));
  history_.Hello(tests::SmallHello("run", "2"));
  const auto same = [&](const store::RunInfo& now) { return SameAs(seen, now); };
  EXPECT_EQ(history_.store().DeleteRun("run", same).code(), Code::kFailedPrecondition);
  EXPECT_EQ(Runs(), Names{"run"});
  ASSERT_TRUE(history_.store().DeleteRun("run").ok());
  Write("run", true);
  EXPECT_FALSE(SameAs(seen, *history_.store().GetRun("run"))) << "another run of that name";
}

TEST_F(UpkeepTest, BySizeTheQuietestGoesAndTheNextOnlyWhenItsSpaceIsBack) {
  for (const char* run : {"first", "second", "third"}) {
    WriteLarge(run);
    history_.clock().Advance(std::chrono::nanoseconds(kHourNs));
  }
  history_.clock().Advance(std::chrono::nanoseconds(2 * kDayNs));
  ASSERT_TRUE(history_.store().Settle().ok());
  options_.keep_bytes = 1;  // never small enough
  const auto upkeep = StartTrusted();
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
  WriteLarge("gone");
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
  for (const char* name : {"", ".", "..", ".hidden", "a/b", "../x", "a b", "one.tmp", "\xff"}) {
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
  options_.quiet_seconds = 0;
  options_.tick = std::chrono::milliseconds(1);
  const auto upkeep = Upkeep::Start(options_);
  while (upkeep->counters().deleted_by_age == 0) std::this_thread::yield();
  EXPECT_EQ(history_.store().CountRuns(), 0u);
}

}  // namespace
}  // namespace foreshock::upkeep
