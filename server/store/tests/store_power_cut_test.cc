// Cut the power again and again: what was acknowledged is there, once and in order; nothing half.
#include <gtest/gtest.h>

#include <rocksdb/env.h>

#include <random>
#include <thread>

#include "foreshock/server/store/check.h"
#include "power_cut_env.h"
#include "store_test_support.h"

namespace foreshock::store {
namespace {

using test::FrameOf;
using test::HelloOf;
using test::Records;

struct Expectation {
  int64_t acknowledged = 0;  // highest step whose append was reported ok
  int64_t sent = 0;          // highest step that was ever handed over
};

// Appends a random number of steps 1, 2, 3, ... with their events, in batches. Small write buffers make
// RocksDB flush, switch logs and compact meanwhile; frames are sealed in the background.
void Live(Store& store, std::mt19937_64& random, Expectation* expectation) {
  const auto source = store.OpenSource(HelloOf("run"), 1);
  if (!source.ok()) return;
  int64_t next = static_cast<int64_t>(source->durable_seq) / 2 + 1;
  const int batches = static_cast<int>(random() % 25);
  for (int batch = 0; batch < batches; ++batch) {
    Records records(source->id, 2 * static_cast<uint64_t>(next) - 1);
    const int frames = 1 + static_cast<int>(random() % 5);
    for (int i = 0; i < frames; ++i) {
      wire::Frame frame = FrameOf(next, static_cast<float>(next));
      frame.series.push_back(test::HeadSeries(kLogitMax, 0, std::vector<float>(1 + random() % 4'000, 1.5f)));
      records.Frame(std::move(frame)).Event(next);
      ++next;
    }
    expectation->sent = std::max(expectation->sent, next - 1);
    if (store.AppendRecords(records.list).ok()) expectation->acknowledged = next - 1;
    const std::vector<MetaEntry> meta = {{"alert", "run", "last", std::to_string(next - 1)}};
    store.PutMeta(meta).IgnoreError();
    if (random() % 10 == 0) store.Settle().IgnoreError();
  }
}

// Whether the store holds exactly the steps 1..n, each with its event, n being what its counter says and
// covering what was acknowledged.
bool IsWhole(Store& store, const Expectation& expectation) {
  const auto attempt = store.GetAttempt("run", "1");
  if (!attempt.ok()) return expectation.acknowledged == 0;
  std::vector<int64_t> steps;
  const Status status =
      store.ReadFrames({.run = "run", .every_incarnation = true}, [&](const StoredFrame& frame) {
        steps.push_back(frame.frame.step);
        return true;
      });
  const auto events = store.ReadEvents("run", "1");
  if (!status.ok() || !events.ok() || events->size() != steps.size()) return false;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] != static_cast<int64_t>(i) + 1) return false;
  }
  const auto held = static_cast<int64_t>(steps.size());
  return held >= expectation.acknowledged && held <= expectation.sent &&
         attempt->sources.at(0).durable_seq == 2 * static_cast<uint64_t>(held);
}

Result<std::unique_ptr<Store>> Open(rocksdb::Env* env) {
  return Store::Open({.folder = "/db",
                      .write_buffer_bytes = 64 << 10,
                      .seal_steps = 4,
                      .keep_open_steps = 1,
                      .tick = std::chrono::milliseconds(1),
                      .env = env});
}

bool SurvivesPowerCuts(uint64_t seed, bool ignore_syncs) {
  std::mt19937_64 random(seed);
  PowerCutFileSystem files;
  EXPECT_TRUE(CreateDirs(files, "/db").ok());
  files.SetIgnoreSyncs(ignore_syncs);
  Expectation expectation;
  for (int life = 0; life < 6; ++life) {
    test::PowerCutEnv env(files);
    Result<std::unique_ptr<Store>> store = Open(env.get());
    if (!store.ok()) {
      EXPECT_TRUE(ignore_syncs) << "seed " << seed << ": " << store.status().ToString();
      return false;
    }
    if (!IsWhole(**store, expectation)) return false;
    if (life % 2 != 0) {
      store->reset();
      const auto report = CheckStore({.folder = "/db", .env = env.get()});
      EXPECT_TRUE(report.ok()) << report.status().ToString();
      if (!report.ok() || report->faults != 0) return false;
      store = Open(env.get());
      if (!store.ok()) return false;
    }
    Live(**store, random, &expectation);
    if (!IsWhole(**store, expectation)) return false;
    // The cut comes first: closing a store in good order would write.
    env.Die();
    files.PowerCut({.keep_some = random() % 3 != 0, .seed = random()});
    store->reset();
  }
  return true;
}

TEST(StorePowerCut, AcknowledgedRecordsSurvive) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    EXPECT_TRUE(SurvivesPowerCuts(seed, false));
  }
}

// The canary: with syncs that do nothing the same test must fail.
TEST(StorePowerCut, CanaryWithoutSyncsRecordsAreLost) {
  int lost = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) lost += SurvivesPowerCuts(seed, true) ? 0 : 1;
  EXPECT_EQ(lost, 4);
}

TEST(StorePowerCut, AFailedSyncIsNotAcknowledgedAndWritingResumes) {
  PowerCutFileSystem files;
  ASSERT_TRUE(CreateDirs(files, "/db").ok());
  test::PowerCutEnv env(files);
  auto store = Store::Open({.folder = "/db", .env = env.get()});
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  Records records((*store)->OpenSource(HelloOf("run"), 1)->id);
  records.Frame(1, 1);
  files.FailSyncs(1);
  ASSERT_FALSE((*store)->AppendRecords(records.list).ok());
  EXPECT_FALSE((*store)->health().ok());
  const auto again = (*store)->AppendRecords(records.list);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->at(0), AppendOutcome::kStored);
  EXPECT_TRUE((*store)->health().ok());
  env.Die();
  files.PowerCut();
  store->reset();
  test::PowerCutEnv next_life(files);
  auto reborn = Store::Open({.folder = "/db", .env = next_life.get()});
  ASSERT_TRUE(reborn.ok()) << reborn.status().ToString();
  EXPECT_EQ((*reborn)->ReadStep({.run = "run"})->frame.step, 1);
}

TEST(StorePowerCut, SealingThatFailsIsCountedAndResumes) {
  PowerCutFileSystem files;
  ASSERT_TRUE(CreateDirs(files, "/db").ok());
  test::PowerCutEnv env(files);
  auto store = Store::Open({.folder = "/db", .tick = std::chrono::seconds(1), .env = env.get()});
  ASSERT_TRUE(store.ok());
  const SourceId source = (*store)->OpenSource(HelloOf("run"), 1)->id;
  Records records(source);
  for (int64_t step = 1; step <= 40; ++step) records.Frame(step, 1);
  ASSERT_TRUE((*store)->AppendRecords(records.list).ok());
  Records next(source, 41);
  next.Frame(41, 1);
  files.FailSyncs(1);
  ASSERT_FALSE((*store)->AppendRecords(next.list).ok());
  // The store ails until somebody writes again; what is quiet for a tick or two is to be sealed meanwhile.
  while ((*store)->stats().seal_failures == 0) std::this_thread::yield();
  EXPECT_EQ((*store)->stats().sealed_frames, 0u);
  ASSERT_TRUE((*store)->AppendRecords(next.list).ok());
  while ((*store)->stats().sealed_frames == 0) std::this_thread::yield();
  EXPECT_EQ((*store)->stats().rollup_failures, 0u);
  store->reset();
}

TEST(StorePowerCut, AFullDiskIsSaidAndWritingResumesWhenThereIsRoom) {
  PowerCutFileSystem files;
  ASSERT_TRUE(CreateDirs(files, "/db").ok());
  test::PowerCutEnv env(files);
  auto store = Store::Open({.folder = "/db", .env = env.get()});
  ASSERT_TRUE(store.ok());
  const SourceId source = (*store)->OpenSource(HelloOf("run"), 1)->id;
  files.SetCapacity(files.used_bytes() + 100'000);
  uint64_t seq = 1;
  Result<std::vector<AppendOutcome>> outcome = Status(Code::kInternal, "not yet");
  do {
    Records records(source, seq);
    records.Frame(static_cast<int64_t>(seq), 1);
    records.list[0].payload = std::string(20'000, 'x');
    outcome = (*store)->AppendRecords(records.list);
    if (outcome.ok()) ++seq;
  } while (outcome.ok());
  EXPECT_EQ(outcome.status().code(), Code::kResourceExhausted) << outcome.status().ToString();
  EXPECT_EQ((*store)->health().code(), Code::kResourceExhausted);
  EXPECT_EQ((*store)->GetSource(source)->durable_seq, seq - 1) << "reading goes on";
  Records next(source, seq);
  next.Frame(static_cast<int64_t>(seq), 1);
  EXPECT_FALSE((*store)->AppendRecords(next.list).ok()) << "still full";
  files.SetCapacity(PowerCutFileSystem::kUnlimited);
  outcome = (*store)->AppendRecords(next.list);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_TRUE((*store)->health().ok());
  env.Die();
  files.PowerCut();
  store->reset();
  test::PowerCutEnv next_life(files);
  auto reborn = Store::Open({.folder = "/db", .env = next_life.get()});
  ASSERT_TRUE(reborn.ok()) << reborn.status().ToString();
  EXPECT_EQ((*reborn)->GetSource(source)->durable_seq, seq);
}

}  // namespace
}  // namespace foreshock::store
