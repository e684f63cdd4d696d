// Sealed or open, a reader sees the same: every test compares a store that seals with one that never does and
// was given the same records.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "database.h"
#include "foreshock/server/store/check.h"
#include "keys.h"
#include "store_test_support.h"

namespace foreshock::store {
namespace {

using test::FrameOf;
using test::HelloOf;
using test::Records;

std::string Text(const wire::Frame& frame) { return wire::Encode(frame); }
std::string Text(const SeriesPoint& point) {
  wire::Frame frame;
  frame.step = point.step;
  frame.series = {point.series};
  return wire::Encode(frame);
}

class Pair {
 public:
  explicit Pair(uint32_t seal_steps = 8, uint32_t keep_open = 3)
      : seal_steps_(seal_steps), keep_open_(keep_open) {
    Reopen();
  }
  void Reopen() {
    sealing_.reset();
    plain_.reset();
    sealing_ = Open(sealing_folder_, seal_steps_);
    plain_ = Open(plain_folder_, 0);
  }
  SourceId Source(const wire::Hello& hello) {
    const SourceId id = sealing_->OpenSource(hello, 1)->id;
    EXPECT_EQ(plain_->OpenSource(hello, 1)->id, id);
    return id;
  }
  void Put(const Records& records) {
    EXPECT_TRUE(sealing_->AppendRecords(records.list).ok());
    EXPECT_TRUE(plain_->AppendRecords(records.list).ok());
  }
  void PutMerged(const SourceId& id, const wire::Frame& frame) {
    const auto shared = std::make_shared<const wire::Frame>(frame);
    for (Store* store : {sealing_.get(), plain_.get()}) {
      EXPECT_TRUE(store->PutMerged(id, shared, false, store->Stamp()).ok());
    }
  }
  void Settle() {
    const Status status = sealing_->Settle();
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  Store& sealing() { return *sealing_; }
  const std::string& sealing_folder() const { return sealing_folder_.path(); }
  void CloseSealing() { sealing_.reset(); }

  static std::vector<std::string> Frames(const Store& store, const FrameQuery& query) {
    std::vector<std::string> list;
    const Status status = store.ReadFrames(query, [&](const StoredFrame& f) {
      list.push_back(std::to_string(f.rank) + " " + std::to_string(f.incarnation) + Text(f.frame));
      return true;
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return list;
  }
  static std::vector<std::string> Series(const Store& store, const SeriesQuery& query) {
    std::vector<std::string> list;
    const Status status = store.ReadSeries(query, [&](const SeriesPoint& point) {
      list.push_back(std::to_string(point.step + 5'000'000) + Text(point));
      return true;
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end(),
                               [](const auto& a, const auto& b) { return a.substr(0, 7) < b.substr(0, 7); }));
    // Layers of one step may come in another order.
    std::sort(list.begin(), list.end());
    return list;
  }
  static std::string Step(const Store& store, const StepQuery& query) {
    const auto step = store.ReadStep(query);
    return step.ok() ? std::to_string(step->incarnation) + Text(step->frame)
                     : std::string(CodeName(step.status().code()));
  }

  void ExpectSame(const std::string& run, uint32_t rank, int64_t from, int64_t to) const {
    for (const bool backward : {false, true}) {
      for (const bool every : {false, true}) {
        FrameQuery query{.run = run, .rank = rank, .from_step = from, .to_step = to, .backward = backward};
        query.every_incarnation = every;
        EXPECT_EQ(Frames(*sealing_, query), Frames(*plain_, query));
        query.limit = 5;
        EXPECT_EQ(Frames(*sealing_, query), Frames(*plain_, query));
      }
    }
    for (const uint16_t signal : {kLoss, kLogitMax, kEntropyMean}) {
      SeriesQuery query{.run = run, .signal = signal, .from_step = from, .to_step = to, .rank = rank};
      EXPECT_EQ(Series(*sealing_, query), Series(*plain_, query));
      query.layer = 1;
      EXPECT_EQ(Series(*sealing_, query), Series(*plain_, query));
      query.heads = {2, 0};
      EXPECT_EQ(Series(*sealing_, query), Series(*plain_, query));
      query.max_points = 7;
      EXPECT_EQ(Series(*sealing_, query), Series(*plain_, query));
      for (const int64_t step : {from, to, (from + to) / 2}) {
        for (const bool exact : {false, true}) {
          const StepQuery at{.run = run, .step = step, .rank = rank, .signals = {signal}, .exact = exact};
          EXPECT_EQ(Step(*sealing_, at), Step(*plain_, at));
          const StepQuery whole{.run = run, .step = step, .rank = rank, .exact = exact};
          EXPECT_EQ(Step(*sealing_, whole), Step(*plain_, whole));
        }
      }
    }
  }
  void ExpectSame(const std::string& run, uint32_t rank = kMerged) const {
    ExpectSame(run, rank, -1'000, 100'000);
    ExpectSame(run, rank, 5, 40);
    ExpectSame(run, rank, 17, 17);
  }

 private:
  std::unique_ptr<Store> Open(const test::Folder& folder, uint32_t seal_steps) {
    auto store =
        Store::Open({.folder = folder.path(), .seal_steps = seal_steps, .keep_open_steps = keep_open_});
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return std::move(store).value();
  }
  const uint32_t seal_steps_, keep_open_;
  test::Folder sealing_folder_, plain_folder_;
  std::unique_ptr<Store> sealing_, plain_;
};

wire::Frame Sampled(int64_t step, std::mt19937_64& random) {
  wire::Frame frame = FrameOf(step, static_cast<float>(step));
  frame.time_unix_ns = static_cast<uint64_t>(step) * 1'000 + random() % 100;
  if (step % 3 != 0) return frame;
  for (uint32_t layer = 0; layer < 3; ++layer) {
    std::vector<float> values(layer == 1 ? 4 : 2);
    for (float& x : values) x = static_cast<float>(random() % 1'000) / 7;
    frame.series.push_back(test::HeadSeries(kLogitMax, layer, values));
    if (random() % 4 == 0) frame.series.push_back(test::HeadSeries(kEntropyMean, layer, {1.5f}));
  }
  if (random() % 5 == 0) frame.series[1].present = {1, 0};
  if (random() % 5 == 0) frame.series[1].rotated = {0, 1};
  return frame;
}

TEST(StoreSeal, StepsInOrder) {
  Pair pair;
  std::mt19937_64 random(1);
  Records records(pair.Source(HelloOf("run")));
  for (int64_t step = 0; step < 100; ++step) records.Frame(Sampled(step, random));
  pair.Put(records);
  pair.Settle();
  EXPECT_EQ(pair.sealing().stats().sealed_frames, 97u) << "all but those kept open";
  pair.ExpectSame("run");
  pair.Reopen();
  pair.ExpectSame("run");
}

TEST(StoreSeal, LateStepsAndStepsSentAgain) {
  Pair pair;
  std::mt19937_64 random(2);
  Records records(pair.Source(HelloOf("run")));
  for (int64_t step = 0; step < 60; step += 2) records.Frame(Sampled(step, random));
  pair.Put(records);
  pair.Settle();
  const uint64_t next = 1 + records.list.size();
  Records late(pair.Source(HelloOf("run")), next);
  for (const int64_t step : {7, 8, 31, 20, 20, 59, 58, 3}) late.Frame(Sampled(step, random));
  pair.Put(late);
  pair.ExpectSame("run");
  for (int64_t step = 60; step < 90; ++step) {
    late.list.clear();
    late.Frame(Sampled(step, random));
    pair.Put(late);
  }
  pair.Settle();
  pair.ExpectSame("run");
  pair.Reopen();
  pair.ExpectSame("run");
}

TEST(StoreSeal, AMergedFrameThatIsAmendedAfterItWasSealed) {
  Pair pair;
  std::mt19937_64 random(3);
  const SourceId id = pair.Source(HelloOf("run", {.rank = 0, .world_size = 2}));
  for (int round = 0; round < 3; ++round) {
    for (int64_t step = 0; step < 50; step += 1 + round) pair.PutMerged(id, Sampled(step, random));
    if (round != 1) pair.Settle();
    pair.ExpectSame("run");
  }
}

// A sender of a later version: what this one does not know must not get lost.
TEST(StoreSeal, FramesWithUnknownFieldsStayAsTheyCame) {
  Pair pair;
  std::mt19937_64 random(4);
  Records records(pair.Source(HelloOf("run")));
  for (int64_t step = 0; step < 40; ++step) records.Frame(Sampled(step, random));
  records.list[10].payload += std::string("\xF8\x07\x05", 3);  // field 127: 5
  pair.Put(records);
  pair.Settle();
  pair.ExpectSame("run");
  const std::string folder = pair.sealing_folder();
  pair.CloseSealing();
  auto db = Database::Open({.folder = folder});
  ASSERT_TRUE(db.ok());
  std::vector<std::string> kept;
  ASSERT_TRUE((*db)
                  ->Scan(TablePrefix(Table::kKept), {},
                         [&](std::string_view, std::string_view value) {
                           kept.emplace_back(value.substr(4));
                           return true;
                         })
                  .ok());
  EXPECT_EQ(kept, std::vector<std::string>{records.list[10].payload});
}

// Halves of a frame that are sealed at different times would never meet again.
TEST(StoreSeal, AFrameWhosePartsAreUnderWayStaysOpen) {
  Pair pair(8, 0);
  wire::Frame frame = FrameOf(9, 1);
  for (uint32_t layer = 0; layer < 8; ++layer)
    frame.series.push_back(test::HeadSeries(kLogitMax, layer, {1, 2}));
  const SourceId id = pair.Source(HelloOf("run"));
  Records all = Records(id).Split(frame, 128);
  ASSERT_GT(all.list.size(), 2u);
  for (const Append& record : all.list) {
    Records one(id);
    one.list = {record};
    pair.Put(one);
    pair.Settle();
    pair.ExpectSame("run");
  }
  EXPECT_EQ(pair.sealing().stats().sealed_frames, all.list.size());
}

TEST(StoreSeal, ADeletedRunLeavesNothingBehind) {
  Pair pair;
  std::mt19937_64 random(5);
  for (const char* run : {"gone", "run"}) {
    Records records(pair.Source(HelloOf(run)));
    for (int64_t step = 0; step < 50; ++step) records.Frame(Sampled(step, random));
    pair.Put(records);
  }
  pair.Settle();
  ASSERT_TRUE(pair.sealing().DeleteRun("gone").ok());
  pair.Settle();
  pair.ExpectSame("run");
  EXPECT_EQ(pair.sealing().ReadStep({.run = "gone"}).status().code(), Code::kNotFound);
  const std::string folder = pair.sealing_folder();
  pair.CloseSealing();
  auto db = Database::Open({.folder = folder});
  ASSERT_TRUE(db.ok());
  for (const Table table : {Table::kGroup, Table::kChunk, Table::kKept, Table::kFrame}) {
    ASSERT_TRUE((*db)
                    ->Scan(TableRunPrefix(table, 1), {},
                           [&](std::string_view, std::string_view) {
                             ADD_FAILURE() << "of the deleted run";
                             return false;
                           })
                    .ok());
  }
}

TEST(StoreSeal, TheSpaceOfADeletedRunIsGivenBack) {
  test::Folder folder;
  auto store = Store::Open({.folder = folder.path(), .seal_steps = 8});
  ASSERT_TRUE(store.ok());
  std::mt19937_64 random(8);
  for (const char* run : {"small", "large"}) {
    Records records((*store)->OpenSource(HelloOf(run), 1)->id);
    for (int64_t step = 0; step < 100; ++step) {
      std::vector<float> values(run[0] == 'l' ? 2'000 : 10);
      for (float& x : values) x = static_cast<float>(random());
      wire::Frame frame = FrameOf(step, 1);
      frame.series.push_back(test::HeadSeries(kLogitMax, 0, values));
      records.Frame(std::move(frame));
    }
    ASSERT_TRUE((*store)->AppendRecords(records.list).ok());
  }
  ASSERT_TRUE((*store)->Settle().ok());
  EXPECT_GT((*store)->stats().disk_bytes, 500'000u);
  ASSERT_TRUE((*store)->DeleteRun("large").ok());
  ASSERT_TRUE((*store)->Settle().ok());
  EXPECT_LT((*store)->stats().disk_bytes, 100'000u);
  EXPECT_EQ(Pair::Frames(**store, {.run = "small"}).size(), 100u);
}

TEST(StoreSeal, AnotherProcessOfTheOnlyRankIsSealedToo) {
  test::Folder folder;
  auto store = *Store::Open({.folder = folder.path(), .seal_steps = 8, .keep_open_steps = 1});
  for (uint64_t incarnation = 1; incarnation <= 2; ++incarnation) {
    Records records(store->OpenSource(HelloOf("run", {.incarnation = incarnation}), 1)->id);
    for (int64_t step = 0; step < 40; ++step)
      records.Frame(FrameOf(step + 20 * static_cast<int64_t>(incarnation), 1));
    ASSERT_TRUE(store->AppendRecords(records.list).ok());
    ASSERT_TRUE(store->Settle().ok());
  }
  EXPECT_GE(store->stats().sealed_frames, 78u);
}

// More open frames than are counted at the start.
TEST(StoreSeal, AFolderThatFellFarBehindIsSealedToItsEnd) {
  constexpr int64_t kSteps = 2'000;
  test::Folder folder;
  std::mt19937_64 random(9);
  {
    auto store = *Store::Open({.folder = folder.path(), .seal_steps = 0});
    Records records(store->OpenSource(HelloOf("run"), 1)->id);
    for (int64_t step = 0; step < kSteps; ++step) records.Frame(Sampled(step, random));
    ASSERT_TRUE(store->AppendRecords(records.list).ok());
  }
  auto store = *Store::Open(
      {.folder = folder.path(), .seal_steps = 8, .keep_open_steps = 1, .tick = std::chrono::milliseconds(5)});
  while (store->stats().sealed_frames < kSteps - 16) std::this_thread::yield();
  // What comes afterwards is counted and sealed as ever.
  Records more(store->OpenSource(HelloOf("run"), 1)->id, kSteps + 1);
  for (int64_t step = kSteps; step < kSteps + 100; ++step) more.Frame(Sampled(step, random));
  ASSERT_TRUE(store->AppendRecords(more.list).ok());
  while (store->stats().sealed_frames < kSteps + 100 - 16) std::this_thread::yield();
  EXPECT_EQ(Pair::Frames(*store, {.run = "run"}).size(), static_cast<size_t>(kSteps + 100));
}

TEST(StoreSeal, OnlyWhatMayBeReadAgainTakesRoomInTheCache) {
  constexpr int64_t kSteps = 4'000;
  test::Folder folder;
  {
    auto store = *Store::Open({.folder = folder.path(), .seal_steps = 0});
    Records records(store->OpenSource(HelloOf("run"), 1)->id);
    std::mt19937_64 random(10);
    for (int64_t step = 0; step < kSteps; ++step) {
      wire::Frame frame = FrameOf(step, 1);
      std::vector<float> values(64);
      for (float& x : values) x = static_cast<float>(random() % 1'000'000) / 7;
      frame.series.push_back(test::HeadSeries(kLogitMax, 0, values));
      records.Frame(std::move(frame));
    }
    ASSERT_TRUE(store->AppendRecords(records.list).ok());
    ASSERT_TRUE(store->Settle().ok());  // into files
  }
  auto store = *Store::Open({.folder = folder.path()});
  ASSERT_TRUE(store->Settle().ok());
  ASSERT_GT(store->stats().sealed_frames, 3'900u);
  const uint64_t quarter = store->stats().history_bytes / 4;
  EXPECT_LT(store->stats().cache_bytes, quarter) << "after sealing and rolling up";
  EXPECT_EQ(Pair::Frames(*store, {.run = "run"}).size(), static_cast<size_t>(kSteps));
  EXPECT_LT(store->stats().cache_bytes, quarter) << "after a reader who follows the run";
  const SeriesQuery query{.run = "run", .signal = kLogitMax, .layer = 0};
  EXPECT_TRUE(store->ReadSeries(query, [](const SeriesPoint&) { return true; }).ok());
  EXPECT_GT(store->stats().cache_bytes, quarter) << "after a chart";
}

TEST(StoreSeal, WhatIsKeptBehindTheLastSealedStepIsRead) {
  Pair pair(4, 0);
  const SourceId id = pair.Source(HelloOf("run"));
  Records records(id);
  for (int64_t step = 1; step <= 3; ++step) records.Frame(step, 1);
  wire::Frame split = FrameOf(4, 4);
  for (uint32_t layer = 0; layer < 8; ++layer)
    split.series.push_back(test::HeadSeries(kLogitMax, layer, {1, 2, 3}));
  records.Split(split, 100);
  records.list.pop_back();  // the last part never comes
  records.Frame(5, 5);
  pair.Put(records);
  pair.Settle();
  Records later(id, records.list.back().head.seq + 10);
  later.Frame(3, 3);  // a step sent again: the older frame is kept
  pair.Put(later);
  pair.Settle();
  pair.ExpectSame("run");
}

TEST(StoreSeal, AFolderOfTheFirstVersionIsTakenOverAndANewerOneRefused) {
  test::Folder folder;
  const auto set_version = [&](const std::string& version) {
    auto db = Database::Open({.folder = folder.path()});
    ASSERT_TRUE(db.ok());
    Batch batch;
    batch.Put(FormatKey(), version);
    ASSERT_TRUE((*db)->Write(batch, true).ok());
  };
  {
    auto store = Store::Open({.folder = folder.path(), .seal_steps = 0});
    Records records((*store)->OpenSource(HelloOf("run"), 1)->id);
    for (int64_t step = 0; step < 100; ++step) records.Frame(step, static_cast<float>(step));
    ASSERT_TRUE((*store)->AppendRecords(records.list).ok());
  }
  set_version("1");
  {
    auto store = Store::Open({.folder = folder.path()});
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    ASSERT_TRUE((*store)->Settle().ok());
    EXPECT_EQ((*store)->stats().sealed_frames, 84u);
    EXPECT_EQ(Pair::Frames(**store, {.run = "run"}).size(), 100u);
  }
  set_version("5");
  const auto refused = Store::Open({.folder = folder.path()});
  EXPECT_EQ(refused.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.status().message().find("version 5, this server reads 1 to 4"), std::string::npos)
      << refused.status().ToString();
}

TEST(StoreSeal, TheCheckerSaysWhatIsMissing) {
  test::Folder folder;
  EXPECT_EQ(CheckStore({.folder = folder.path()}).status().code(), Code::kNotFound);
  {
    auto store = Store::Open({.folder = folder.path(), .seal_steps = 8});
    std::mt19937_64 random(6);
    Records records((*store)->OpenSource(HelloOf("run"), 1)->id);
    for (int64_t step = 0; step < 48; ++step) records.Frame(Sampled(step, random));
    ASSERT_TRUE((*store)->AppendRecords(records.list).ok());
    ASSERT_TRUE((*store)->Settle().ok());
    EXPECT_EQ(CheckStore({.folder = folder.path()}).status().code(), Code::kFailedPrecondition) << "in use";
  }
  const auto clean = CheckStore({.folder = folder.path()});
  ASSERT_TRUE(clean.ok()) << clean.status().ToString();
  EXPECT_EQ(clean->faults, 0u) << clean->first_faults.front();
  EXPECT_EQ(clean->open_frames, 16u);
  EXPECT_EQ(clean->sealed_frames, 32u);
  EXPECT_EQ(clean->groups, 4u);
  size_t lines = 0;
  ASSERT_TRUE(DumpStore({.folder = folder.path()}, [&](const std::string&) { ++lines; }).ok());
  EXPECT_GT(lines, 16u + 4u + clean->columns);

  // One after the other: a column gone, a column of another step's values, a group's entry gone.
  const auto change = [&](const std::function<void(Database&, Batch*)>& how) {
    auto db = Database::Open({.folder = folder.path()});
    Batch batch;
    how(**db, &batch);
    ASSERT_TRUE((*db)->Write(batch, true).ok());
  };
  std::vector<std::pair<std::string, std::string>> columns;
  change([&](Database& db, Batch* batch) {
    EXPECT_TRUE(db.Scan(TablePrefix(Table::kChunk), {}, [&](std::string_view key, std::string_view value) {
                    columns.emplace_back(key, value);
                    return true;
                  }).ok());
    batch->Delete(columns[1].first);
  });
  EXPECT_EQ(CheckStore({.folder = folder.path()})->faults, 1u);
  change([&](Database&, Batch* batch) {
    batch->Put(columns[1].first, columns[1].second.substr(0, columns[1].second.size() - 1));
  });
  EXPECT_EQ(CheckStore({.folder = folder.path()})->faults, 1u);
  change([&](Database& db, Batch* batch) {
    batch->Put(columns[1].first, columns[1].second);
    EXPECT_TRUE(db.Scan(TablePrefix(Table::kGroup), {}, [&](std::string_view key, std::string_view) {
                    batch->Delete(key);
                    return false;
                  }).ok());
  });
  EXPECT_EQ(CheckStore({.folder = folder.path()})->faults, 1u);
}

// Everything at once, at random: order, repetition, restarts, parts, ranks, sealing in the background.
void LiveThrough(uint64_t seed) {
  std::mt19937_64 random(seed);
  Pair pair(static_cast<uint32_t>(2 + random() % 12), static_cast<uint32_t>(random() % 5));
  const bool ranks = random() % 3 == 0;
  uint64_t incarnation = 1, seq = 1;
  int64_t step = static_cast<int64_t>(random() % 20);
  SourceId id;
  const auto connect = [&] {
    id = pair.Source(HelloOf("run", {.rank = 0, .world_size = ranks ? 2u : 1u, .incarnation = incarnation}));
  };
  connect();
  for (int action = 0; action < 60; ++action) {
    const uint64_t dice = random() % 20;
    if (dice == 0) {  // the process starts again, some steps back
      ++incarnation;
      seq = 1;
      step -= static_cast<int64_t>(random() % 30);
      connect();
    } else if (dice == 1) {
      pair.Reopen();
      connect();
    } else if (dice == 2) {
      pair.Settle();
    } else if (dice == 3) {
      step -= static_cast<int64_t>(random() % 10);
    } else if (dice == 4 && ranks) {
      for (int64_t s = step - 20; s < step; ++s) pair.PutMerged(id, Sampled(s, random));
    } else {
      Records records(id, seq);
      const size_t frames = 1 + random() % 6;
      for (size_t i = 0; i < frames; ++i) {
        wire::Frame frame = Sampled(step, random);
        step += static_cast<int64_t>(random() % 3);
        if (random() % 6 != 0) {
          records.Frame(std::move(frame));
          continue;
        }
        records.Split(frame, 100);
        if (random() % 4 == 0) records.list.pop_back();  // lost on the way: a gap
      }
      seq = records.list.empty() ? seq : records.list.back().head.seq + 2;
      pair.Put(records);
    }
    if (action % 20 == 19) {
      pair.ExpectSame("run", ranks ? 0 : kMerged);
      if (ranks) pair.ExpectSame("run");
    }
  }
}

TEST(StoreSealFuzz, AnyLifeReadsAsIfNothingHadBeenSealed) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LiveThrough(seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace foreshock::store
