#include "foreshock/server/store/store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "store_test_support.h"

namespace foreshock::store {
namespace {

using test::Folder;
using test::HelloOf;
using test::Records;

class StoreTest : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    auto store = Store::Open({.folder = folder_.path()});
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = std::move(store).value();
  }
  SourceInfo Source(const wire::Hello& hello) {
    auto source = store_->OpenSource(hello, 1'000);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return *source;
  }
  std::vector<AppendOutcome> Put(const Records& records) {
    auto outcomes = store_->AppendRecords(records.list);
    EXPECT_TRUE(outcomes.ok()) << outcomes.status().ToString();
    return outcomes.ok() ? *outcomes : std::vector<AppendOutcome>{};
  }
  std::vector<StoredFrame> Read(const FrameQuery& query) {
    std::vector<StoredFrame> frames;
    const Status status = store_->ReadFrames(query, [&](StoredFrame frame) {
      frames.push_back(std::move(frame));
      return true;
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return frames;
  }
  std::vector<int64_t> Steps(const FrameQuery& query) {
    std::vector<int64_t> steps;
    for (const StoredFrame& frame : Read(query)) steps.push_back(frame.frame.step);
    return steps;
  }

  Folder folder_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, FramesComeBackByStepAndSurviveAReopening) {
  const SourceInfo source = Source(HelloOf("run"));
  Records records(source.id);
  for (const int64_t step : {5, -3, 7, 1'000}) records.Frame(step, static_cast<float>(step));
  EXPECT_EQ(Put(records), std::vector<AppendOutcome>(4, AppendOutcome::kStored));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Steps({.run = "run"}), (std::vector<int64_t>{-3, 5, 7, 1'000}));
    EXPECT_EQ(Steps({.run = "run", .backward = true, .limit = 2}), (std::vector<int64_t>{1'000, 7}));
    EXPECT_EQ(Steps({.run = "run", .from_step = 5, .to_step = 7}), (std::vector<int64_t>{5, 7}));
    EXPECT_EQ(Steps({.run = "run", .from_step = -3, .to_step = 6, .backward = true}),
              (std::vector<int64_t>{5, -3}));
    EXPECT_EQ(Steps({.run = "run", .rank = 0}).size(), 4u);
    EXPECT_EQ(Steps({.run = "run", .rank = 1}).size(), 0u);
    const auto info = store_->GetAttempt("run", "");
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->sources.at(0).durable_seq, 4u);
    EXPECT_EQ(info->first_step, -3);
    EXPECT_EQ(info->last_step, 1'000);
    Reopen();
  }
}

TEST_F(StoreTest, DuplicatesAreLeftOutAndGapsCounted) {
  const SourceInfo source = Source(HelloOf("run"));
  Records records(source.id);
  records.Frame(1, 1).Frame(2, 2).Frame(3, 3);
  Put(records);
  records.Frame(4, 4);
  EXPECT_EQ(Put(records), (std::vector<AppendOutcome>{AppendOutcome::kDuplicate, AppendOutcome::kDuplicate,
                                                      AppendOutcome::kDuplicate, AppendOutcome::kStored}));
  Records later(source.id, 10);
  later.Frame(10, 1, {.dropped_before = 3});  // 5..9 are missing, 3 of them declared
  Put(later);
  const auto info = store_->GetSource(source.id);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->duplicates, 3u);
  EXPECT_EQ(info->dropped, 3u);
  EXPECT_EQ(info->gaps, 2u);
  EXPECT_EQ(info->frames, 5u);
  EXPECT_EQ(info->durable_seq, 10u);
}

TEST_F(StoreTest, ARestartedProcessIsNeverTakenForADuplicate) {
  Records old_life(Source(HelloOf("run", {.incarnation = 11})).id);
  old_life.Frame(1, 1).Frame(2, 2).Frame(3, 3);
  Put(old_life);
  const SourceInfo again = Source(HelloOf("run", {.incarnation = 22}));
  EXPECT_EQ(again.durable_seq, 0u);
  Records new_life(again.id);
  new_life.Frame(2, 20);
  EXPECT_EQ(Put(new_life), std::vector<AppendOutcome>{AppendOutcome::kStored});
  const auto newest = Read({.run = "run"});
  ASSERT_EQ(newest.size(), 3u);
  EXPECT_EQ(newest[1].frame.series.at(0).values.at(0), 20);
  EXPECT_EQ(Read({.run = "run", .every_incarnation = true}).size(), 4u);
  // The old process is still known under its own number.
  EXPECT_EQ(Source(HelloOf("run", {.incarnation = 11})).durable_seq, 3u);
}

TEST_F(StoreTest, TwoAttemptsAreBothKept) {
  Records first(Source(HelloOf("run", {.attempt = "a"})).id);
  for (int64_t step = 200; step <= 212; ++step) first.Frame(step, 1);
  Put(first);
  Records second(Source(HelloOf("run", {.attempt = "b", .incarnation = 2})).id);
  for (int64_t step = 200; step <= 205; ++step) second.Frame(step, 2);
  Put(second);
  EXPECT_EQ(Steps({.run = "run", .attempt = "a"}).size(), 13u);
  EXPECT_EQ(Steps({.run = "run", .attempt = "b"}).size(), 6u);
  EXPECT_EQ(Steps({.run = "run"}).size(), 6u);
  const auto run = store_->GetRun("run");
  ASSERT_TRUE(run.ok());
  ASSERT_EQ(run->attempts.size(), 2u);
  EXPECT_EQ(run->attempts[0].attempt, "a");
}

TEST_F(StoreTest, PartsOfAFrameAreJoined) {
  wire::Frame frame = test::FrameOf(9, 1);
  for (uint32_t layer = 0; layer < 8; ++layer)
    frame.series.push_back(test::HeadSeries(kLogitMax, layer, {1, 2, 3}));
  const Records parts = Records(Source(HelloOf("run")).id).Split(frame, 128);
  ASSERT_GT(parts.list.size(), 2u);
  Put(parts);
  const auto frames = Read({.run = "run"});
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].frame.parts, 1u);
  ASSERT_EQ(frames[0].frame.series.size(), frame.series.size());
  EXPECT_EQ(frames[0].frame.series.back().layer, 7u);
}

// A step that a process repeats, both times in parts, of which the first time the end and the second time the
// beginning was lost: halves of two frames make no whole one.
TEST_F(StoreTest, PartsOfTwoFramesAreNotJoined) {
  wire::Frame frame = test::FrameOf(9, 1);
  for (uint32_t layer = 0; layer < 8; ++layer)
    frame.series.push_back(test::HeadSeries(kLogitMax, layer, {1, 2, 3}));
  const SourceId source = Source(HelloOf("run")).id;
  Records first = Records(source).Split(frame, 128);
  const size_t parts = first.list.size();
  ASSERT_GT(parts, 2u);
  Records second = Records(source, 1 + parts).Split(frame, 128);
  first.list.resize(1);
  second.list.erase(second.list.begin());
  Put(first);
  Put(second);
  const auto frames = Read({.run = "run"});
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].frame.parts, parts);
  EXPECT_LT(frames[0].frame.series.size(), frame.series.size());
}

TEST_F(StoreTest, MissingNanAndInfComeBackBitForBit) {
  wire::Frame frame = test::FrameOf(1, std::nanf("0x12"));
  wire::Series series =
      test::HeadSeries(kLogitMax, 2, {std::numeric_limits<float>::infinity(), 0, -0.0f, 1e-45f});
  series.present = {1, 0, 1, 1};
  frame.series.push_back(series);
  Records records(Source(HelloOf("run")).id);
  records.Frame(frame);
  Put(records);
  std::vector<SeriesPoint> points;
  ASSERT_TRUE(store_
                  ->ReadSeries({.run = "run", .signal = kLogitMax, .layer = 2, .heads = {3, 1, 99}},
                               [&](SeriesPoint point) {
                                 points.push_back(std::move(point));
                                 return true;
                               })
                  .ok());
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].series.heads, (std::vector<uint32_t>{3, 1}));
  EXPECT_EQ(points[0].series.present, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(points[0].series.values[0], 1e-45f);
  const auto step = store_->ReadStep({.run = "run", .signals = {kLoss}});
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(std::bit_cast<uint32_t>(step->frame.series.at(0).values.at(0)),
            std::bit_cast<uint32_t>(std::nanf("0x12")));
}

// What the sender's memory had in the places of missing heads is not part of the frame.
TEST_F(StoreTest, PlacesOfMissingHeadsReadTheSameBeforeAndAfterAReopening) {
  wire::Series series = test::HeadSeries(kLogitMax, 2, {1, 77, 3});
  series.present = {1, 0, 1};
  wire::Frame frame = test::FrameOf(1, 0);
  frame.series.push_back(series);
  Records records(Source(HelloOf("run")).id);
  records.Frame(frame);
  Put(records);
  const auto read = [&] {
    std::vector<float> values;
    const Status status =
        store_->ReadSeries({.run = "run", .signal = kLogitMax, .layer = 2}, [&](const SeriesPoint& point) {
          values = point.series.values;
          return true;
        });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return values;
  };
  EXPECT_EQ(read(), (std::vector<float>{1, 0, 3}));
  Reopen();
  EXPECT_EQ(read(), (std::vector<float>{1, 0, 3}));
}

TEST_F(StoreTest, SeriesIsThinnedToItsLimitAndKeepsTheLastStep) {
  Records records(Source(HelloOf("run")).id);
  for (int64_t step = 0; step < 1'000; ++step) records.Frame(step, 1);
  Put(records);
  for (const size_t limit : {1, 2, 7, 100, 999, 1'000, 5'000}) {
    std::vector<int64_t> steps;
    ASSERT_TRUE(store_
                    ->ReadSeries({.run = "run", .signal = kLoss, .max_points = limit},
                                 [&](const SeriesPoint& point) {
                                   steps.push_back(point.step);
                                   return true;
                                 })
                    .ok());
    EXPECT_LE(steps.size(), limit);
    ASSERT_FALSE(steps.empty());
    EXPECT_EQ(steps.back(), 999);
  }
}

TEST_F(StoreTest, StepAtOrBefore) {
  Records records(Source(HelloOf("run")).id);
  wire::Frame sampled = test::FrameOf(10, 1);
  sampled.series.push_back(test::HeadSeries(kLogitMax, 0, {4}));
  records.Frame(sampled).Frame(11, 2).Frame(12, 3);
  Put(records);
  EXPECT_EQ(store_->ReadStep({.run = "run"})->frame.step, 12);
  EXPECT_EQ(store_->ReadStep({.run = "run", .step = 11})->frame.step, 11);
  const auto heads = store_->ReadStep({.run = "run", .step = 12, .signals = {kLogitMax}});
  ASSERT_TRUE(heads.ok());
  EXPECT_EQ(heads->frame.step, 10);
  EXPECT_EQ(heads->frame.series.size(), 1u);
  EXPECT_EQ(store_->ReadStep({.run = "run", .step = 9}).status().code(), Code::kNotFound);
  EXPECT_EQ(
      store_->ReadStep({.run = "run", .step = 12, .signals = {kLogitMax}, .exact = true}).status().code(),
      Code::kNotFound);
  EXPECT_EQ(store_->ReadStep({.run = "no such"}).status().code(), Code::kNotFound);
}

TEST_F(StoreTest, EventsAndGoodbye) {
  const SourceInfo source = Source(HelloOf("run"));
  Records records(source.id);
  records.Frame(1, 1).Event(1, wire::EventKind::kCheckpoint, "/ckpt/1");
  records.Event(3, wire::EventKind::kEval).Goodbye(wire::GoodbyeStatus::kFinished);
  Put(records);
  Reopen();
  const auto events = store_->ReadEvents("run", "");
  ASSERT_TRUE(events.ok());
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ(events->at(0).event.detail, "/ckpt/1");
  EXPECT_EQ(store_->ReadEvents("run", "", 2, 5)->size(), 1u);
  EXPECT_EQ(StateOf(*store_->GetAttempt("run", ""), 0, 1), RunState::kFinished);
}

// A server that was away for an hour cannot say of a run that it was silent for an hour.
TEST_F(StoreTest, SilenceIsNotCountedWhileTheServerWasAway) {
  constexpr int64_t kSecond = 1'000'000'000;
  const SourceInfo source = Source(HelloOf("run"));
  Records records(source.id);
  records.Frame(1, 1);
  records.list[0].received_unix_ns = 1000 * kSecond;
  Put(records);
  const auto state = [&](int64_t now_s) {
    return StateOf(*store_->GetAttempt("run", ""), now_s * kSecond, 120 * kSecond, store_->listening());
  };
  ASSERT_TRUE(store_->Beat(1010 * kSecond).ok());
  EXPECT_EQ(state(1100), RunState::kRunning);
  Reopen();  // killed; it comes back an hour later
  EXPECT_EQ(store_->GetAttempt("run", "")->last_unix_ns, 1000 * kSecond) << "kept over a restart";
  EXPECT_EQ(state(4700), RunState::kSilent) << "before it says that it listens";
  ASSERT_TRUE(store_->Beat(4700 * kSecond).ok());
  EXPECT_EQ(state(4710), RunState::kRunning);
  EXPECT_EQ(state(4830), RunState::kSilent) << "nothing came since";
  // A run that was silent before the server went away stays so.
  ASSERT_TRUE(store_->Beat(4830 * kSecond).ok());
  Reopen();
  ASSERT_TRUE(store_->Beat(9000 * kSecond).ok());
  EXPECT_EQ(state(9001), RunState::kSilent);
}

TEST_F(StoreTest, RivalsAreTwoLiveProcessesOfOneRank) {
  constexpr int64_t kSecond = 1'000'000'000;
  const auto rivals = [&](int64_t later_start_s, const std::string& later_host, int64_t earlier_sent_s) {
    AttemptInfo attempt;
    wire::Hello first, second;
    first.host = "a";
    first.started_unix_ns = 100 * kSecond;
    second.host = later_host;
    second.started_unix_ns = static_cast<uint64_t>(later_start_s * kSecond);
    SourceInfo earlier, later;
    earlier.id = {1, 1, 3, 1}, later.id = {1, 1, 3, 2};
    earlier.hello = std::make_shared<const wire::Hello>(first);
    later.hello = std::make_shared<const wire::Hello>(second);
    earlier.last_sent_unix_ns = earlier_sent_s * kSecond;
    attempt.sources = {earlier, later};
    return RivalsOf(attempt).size();
  };
  EXPECT_EQ(rivals(200, "a", 199), 0u) << "restarted";
  EXPECT_EQ(rivals(200, "a", 210), 1u);
  EXPECT_EQ(rivals(200, "b", 230), 0u) << "on another host, whose clock may differ";
  EXPECT_EQ(rivals(200, "b", 261), 1u);
  EXPECT_EQ(rivals(200, "a", 0), 0u) << "nothing sent";
  EXPECT_EQ(rivals(100, "a", 500), 0u) << "started at once: nobody can say who is the other one's copy";
}

TEST_F(StoreTest, QuarantineIsKeptApartAndAcknowledged) {
  const SourceInfo source = Source(HelloOf("run"));
  Records records(source.id);
  records.Frame(1, 1).Frame(1'000'000'000, 2).Frame(2, 3);
  records.list[1].quarantine = "step: 1000000000, too far from 1";
  EXPECT_EQ(Put(records)[1], AppendOutcome::kQuarantined);
  EXPECT_EQ(Steps({.run = "run"}), (std::vector<int64_t>{1, 2}));
  const auto info = store_->GetSource(source.id);
  EXPECT_EQ(info->durable_seq, 3u);
  EXPECT_EQ(info->quarantined, 1u);
  EXPECT_EQ(info->last_step, 2);
  const auto kept = store_->ReadQuarantine("run", 10);
  ASSERT_TRUE(kept.ok());
  ASSERT_EQ(kept->size(), 1u);
  EXPECT_EQ(kept->at(0).reason, records.list[1].quarantine);
  EXPECT_EQ(kept->at(0).payload, records.list[1].payload);
}

TEST_F(StoreTest, MetaEntries) {
  const std::vector<MetaEntry> entries = {{"alert", "run", "a1", "x"},
                                          {"alert", "run", "b", "y"},
                                          {"action", "run", "a1", "z"},
                                          {"alert", "run2", "a1", ""}};
  ASSERT_TRUE(store_->PutMeta(entries).ok());
  Reopen();
  EXPECT_EQ(*store_->GetMeta("alert", "run", "a1"), "x");
  EXPECT_EQ(store_->GetMeta("alert", "run", "zz").status().code(), Code::kNotFound);
  EXPECT_EQ(store_->ScanMeta("alert", "run")->size(), 2u);
  EXPECT_EQ(store_->ScanMeta("alert", "run", "a")->size(), 1u);
  EXPECT_EQ(store_->ScanMetaOfAllRuns("alert")->size(), 3u);
  ASSERT_TRUE(store_->DeleteMeta("alert", "run", "a1").ok());
  EXPECT_EQ(store_->ScanMeta("alert", "run")->size(), 1u);
  EXPECT_EQ(store_->PutMeta(std::vector<MetaEntry>{{"", "run", "k", "v"}}).code(), Code::kInvalidArgument);
}

TEST_F(StoreTest, DeletedRunsAreGoneAndTheirNamesFree) {
  const SourceInfo source = Source(HelloOf("run"));
  Records records(source.id);
  records.Frame(1, 1).Event(1);
  Put(records);
  Put(Records(Source(HelloOf("other")).id).Frame(1, 1));
  ASSERT_TRUE(store_->PutMeta(std::vector<MetaEntry>{{"alert", "run", "k", "v"}}).ok());
  ASSERT_TRUE(store_->DeleteRun("run").ok());
  EXPECT_EQ(store_->DeleteRun("run").code(), Code::kNotFound);
  EXPECT_EQ(Put(records)[0], AppendOutcome::kNoSource);
  Reopen();
  EXPECT_EQ(store_->ListRuns().size(), 1u);
  EXPECT_EQ(store_->ScanMeta("alert", "run")->size(), 0u);
  EXPECT_EQ(Source(HelloOf("run")).durable_seq, 0u);
  EXPECT_TRUE(Steps({.run = "run"}).empty());
  EXPECT_EQ(Steps({.run = "other"}).size(), 1u);
}

TEST_F(StoreTest, MergedFramesOfSeveralRanks) {
  const SourceInfo a = Source(HelloOf("run", {.rank = 0, .world_size = 2}));
  const SourceInfo b = Source(HelloOf("run", {.rank = 1, .world_size = 2, .incarnation = 2}));
  Put(Records(a.id).Frame(1, 1));
  EXPECT_TRUE(Steps({.run = "run"}).empty());
  EXPECT_EQ(store_->UnmergedSteps()->size(), 1u);
  const uint64_t as_of = store_->Stamp();
  Put(Records(b.id).Frame(1, 3));
  const auto merged = std::make_shared<const wire::Frame>(test::FrameOf(1, 2));
  ASSERT_TRUE(store_->PutMerged(a.id, merged, false, as_of).ok());
  EXPECT_EQ(store_->UnmergedSteps()->size(), 1u) << "rank 1 came after the stamp";
  ASSERT_TRUE(store_->PutMerged(a.id, merged, true, store_->Stamp()).ok());
  EXPECT_EQ(store_->UnmergedSteps()->size(), 0u);
  Reopen();
  const auto frames = Read({.run = "run"});
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].frame.series.at(0).values.at(0), 2);
}

TEST_F(StoreTest, AWorldIsAsLargeAsItsLargestHelloAndNoProcessChangesIt) {
  const auto world = [&] { return store_->GetRun("run")->newest().world_size; };
  Source(HelloOf("run", {.rank = 0, .world_size = 1}));
  EXPECT_EQ(world(), 1u);
  Source(HelloOf("run", {.rank = 1, .world_size = 4, .incarnation = 2}));
  Source(HelloOf("run", {.rank = 2, .world_size = 2, .incarnation = 3}));
  EXPECT_EQ(world(), 4u);
  for (const uint32_t other : {3u, 8u}) {  // the same process says Hello again
    Source(HelloOf("run", {.rank = 1, .world_size = other, .incarnation = 2}));
    EXPECT_EQ(world(), 4u);
  }
  Reopen();
  EXPECT_EQ(world(), 4u);
}

TEST_F(StoreTest, ObserversHearOfDurableRecordsInOrder) {
  struct Ear : Observer {
    void OnSource(const Origin& origin, const wire::Hello&) override {
      heard.push_back("source " + origin.run);
    }
    void OnFrame(const Origin&, const std::shared_ptr<const wire::Frame>& frame) override {
      heard.push_back("frame " + std::to_string(frame->step));
    }
    void OnEvent(const Origin&, const std::shared_ptr<const wire::Event>& event) override {
      heard.push_back("event " + std::to_string(event->step));
    }
    void OnGoodbye(const Origin& origin, const std::shared_ptr<const wire::Goodbye>&) override {
      heard.push_back("goodbye " + origin.attempt);
    }
    std::vector<std::string> heard;
  } ear;
  auto subscription = store_->Subscribe(&ear);
  Records records(Source(HelloOf("run", {.attempt = "a"})).id);
  records.Frame(1, 1).Event(2).Goodbye(wire::GoodbyeStatus::kFailed);
  Put(records);
  Put(records);
  EXPECT_EQ(ear.heard, (std::vector<std::string>{"source run", "frame 1", "event 2", "goodbye a"}));
  subscription.reset();
  Put(Records(Source(HelloOf("run2")).id).Frame(1, 1));
  EXPECT_EQ(ear.heard.size(), 4u);
}

// Idle runs hold back no log: whoever fills the write buffer, all of it is flushed.
TEST_F(StoreTest, OneBusyRunAmongFiftyIdleOnesKeepsTheLogBounded) {
  constexpr uint64_t kBuffer = 1 << 20;
  store_.reset();
  auto store = Store::Open({.folder = folder_.path(), .write_buffer_bytes = kBuffer});
  ASSERT_TRUE(store.ok());
  store_ = std::move(store).value();
  for (int i = 0; i < 50; ++i) Put(Records(Source(HelloOf("idle" + std::to_string(i))).id).Frame(1, 1));
  Records busy(Source(HelloOf("busy")).id);
  uint64_t written = 0, largest = 0;
  for (int64_t step = 1; written < 40 * kBuffer; ++step) {
    busy.list.clear();
    busy.Frame(step, 1);
    busy.list[0].payload.append(100'000, static_cast<char>(step));
    written += busy.list[0].payload.size();
    Put(busy);
    largest = std::max(largest, store_->stats().wal_bytes);
  }
  EXPECT_GT(largest, kBuffer / 2);
  EXPECT_LT(largest, 6 * kBuffer);
}

TEST_F(StoreTest, ASecondServerOnTheFolderIsRefused) {
  const auto second = Store::Open({.folder = folder_.path()});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kFailedPrecondition) << second.status().ToString();
}

TEST(StoreOpen, BadFoldersAreClearErrors) {
  EXPECT_EQ(Store::Open({}).status().code(), Code::kInvalidArgument);
  const auto nowhere = Store::Open({.folder = "/proc/no/such"});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.status().message().find("/proc/no"), std::string::npos) << nowhere.status().ToString();
}

}  // namespace
}  // namespace foreshock::store
