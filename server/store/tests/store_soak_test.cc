// Crashes at random moments under load: the power goes while a batch is being written and frames are sealed;
// a server process is killed. What was acknowledged is there, and the checker finds nothing wrong.
//
// FORESHOCK_SOAK_CRASHES sets how many of each kind (10), FORESHOCK_SOAK_SEED the first seed (1);
// scripts/soak runs 200 of each.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "foreshock/server/store/check.h"
#include "foreshock/tests/environment.h"
#include "power_cut_env.h"
#include "store_test_support.h"

extern char** environ;

namespace foreshock::store {
namespace {

using test::HelloOf;

constexpr char kChildVariable[] = "FORESHOCK_SOAK_CHILD";

// Small buffers and groups: RocksDB flushes, switches logs and compacts, and frames are sealed, all the time.
StoreOptions Restless(const std::string& folder, rocksdb::Env* env = nullptr) {
  return {.folder = folder,
          .write_buffer_bytes = 64 << 10,
          .seal_steps = 4,
          .keep_open_steps = 1,
          .tick = std::chrono::milliseconds(1),
          .env = env};
}

// Appends steps from where the store stands on, a few a batch, until writing fails or `acknowledged` says
// that it had enough (false). It is told the last step of every batch that was reported ok.
void AppendUntilTheEnd(Store& store, uint64_t seed, const std::function<bool(int64_t)>& acknowledged) {
  std::mt19937_64 random(seed);
  const auto source = store.OpenSource(HelloOf("run"), 1);
  if (!source.ok()) return;
  int64_t next = static_cast<int64_t>(source->durable_seq) + 1;
  for (;;) {
    test::Records records(source->id, static_cast<uint64_t>(next));
    for (auto frames = 1 + random() % 5; frames > 0; --frames, ++next) {
      wire::Frame frame = test::FrameOf(next, static_cast<float>(next));
      frame.series.push_back(
          test::HeadSeries(kLogitMax, 0, std::vector<float>(1 + random() % 2'000, static_cast<float>(next))));
      records.Frame(std::move(frame));
    }
    if (!store.AppendRecords(records.list).ok() || !acknowledged(next - 1)) return;
  }
}

// Nothing, or what is wrong with a store that has to hold the steps 1..n, n at least `acknowledged`.
std::string WrongWith(Store& store, int64_t acknowledged) {
  if (!store.GetRun("run").ok()) return acknowledged == 0 ? "" : "the run is gone";
  int64_t held = 0;
  std::string wrong;
  const Status status = store.ReadFrames({.run = "run"}, [&](const StoredFrame& stored) {
    const wire::Frame& frame = stored.frame;
    if (frame.step != ++held) wrong = "step " + std::to_string(held) + " is missing";
    for (const wire::Series& series : frame.series) {
      if (series.values.back() != static_cast<float>(frame.step)) {
        wrong = "a value of step " + std::to_string(frame.step) + " changed";
      }
    }
    return wrong.empty();
  });
  if (!status.ok()) return status.ToString();
  if (!wrong.empty()) return wrong;
  const auto run = store.GetRun("run");
  if (run->newest().sources.at(0).durable_seq != static_cast<uint64_t>(held)) {
    return "the counter says something else";
  }
  if (held >= acknowledged) return "";
  return "step " + std::to_string(acknowledged) + " was acknowledged, the last one is " +
         std::to_string(held);
}

std::string WrongWithFolder(const StoreOptions& options, int64_t acknowledged) {
  const auto report = CheckStore(options);
  if (!report.ok()) return report.status().ToString();
  if (report->faults != 0) return "checker: " + report->first_faults.at(0);
  auto store = Store::Open(options);
  if (!store.ok()) return store.status().ToString();
  return WrongWith(**store, acknowledged);
}

// Cuts the power `cuts` times while batches are being written. Nothing, or what was wrong after one.
std::string CutUnderLoad(uint64_t seed, uint64_t cuts, bool ignore_syncs) {
  std::mt19937_64 random(seed);
  PowerCutFileSystem files;
  EXPECT_TRUE(CreateDirs(files, "/db").ok());
  files.SetIgnoreSyncs(ignore_syncs);
  int64_t acknowledged = 0;
  for (uint64_t cut = 0; cut < cuts; ++cut) {
    test::PowerCutEnv env(files);
    auto store = Store::Open(Restless("/db", env.get()));
    if (!store.ok()) return store.status().ToString();
    std::atomic<uint64_t> batches{0};
    std::atomic<bool> ended{false};
    std::thread load([&, append_seed = random()] {
      AppendUntilTheEnd(**store, append_seed, [&](int64_t step) {
        acknowledged = step;
        ++batches;
        return true;
      });
      ended = true;
    });
    const uint64_t enough = random() % 40;
    while (batches < enough && !ended) std::this_thread::yield();
    for (auto turns = random() % 500; turns > 0; --turns) std::this_thread::yield();
    env.Die();
    files.PowerCut({.keep_some = random() % 3 != 0, .seed = random()});
    load.join();
    store->reset();
    test::PowerCutEnv next_life(files);
    std::string wrong = WrongWithFolder(Restless("/db", next_life.get()), acknowledged);
    next_life.Die();
    files.PowerCut();
    if (!wrong.empty()) return "cut " + std::to_string(cut) + ": " + wrong;
  }
  return "";
}

TEST(StoreSoak, PowerCutsUnderLoad) {
  const uint64_t cuts = tests::NumberFromEnvironment("FORESHOCK_SOAK_CRASHES", 10),
                 seed = tests::NumberFromEnvironment("FORESHOCK_SOAK_SEED", 1);
  // A fresh folder every ten cuts: reading all of it back stays short.
  for (uint64_t done = 0; done < cuts; done += 10) {
    EXPECT_EQ(CutUnderLoad(seed + done, std::min<uint64_t>(10, cuts - done), false), "")
        << "seed " << seed + done;
  }
}

// The canary: where syncs do nothing the same cuts lose what was acknowledged.
TEST(StoreSoak, CanaryWithoutSyncsCutsLoseRecords) {
  const uint64_t seed = tests::NumberFromEnvironment("FORESHOCK_SOAK_SEED", 1);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_NE(CutUnderLoad(seed + i, 10, true), "") << "seed " << seed + i;
}

// Not a test of its own: what the killed process does. It says the last durable step after every batch.
TEST(StoreSoak, DISABLED_Child) {
  const char* const folder = std::getenv(kChildVariable);
  ASSERT_NE(folder, nullptr) << "only as a child of KillsUnderLoad";
  auto store = Store::Open(Restless(folder));
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  AppendUntilTheEnd(**store, tests::NumberFromEnvironment("FORESHOCK_SOAK_SEED", 1),
                    [](int64_t step) { return write(3, &step, sizeof step) == sizeof step; });
}

struct SoakChild {
  pid_t pid = 0;
  int acknowledgements = -1;
};

SoakChild StartChild(const std::string& folder, uint64_t seed) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
  if (ends[0] != 3) posix_spawn_file_actions_addclose(&actions, ends[0]);
  if (ends[1] != 3) posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::string self = "/proc/self/exe", filter = "--gtest_filter=StoreSoak.DISABLED_Child";
  std::string disabled = "--gtest_also_run_disabled_tests";
  char* argv[] = {self.data(), filter.data(), disabled.data(), nullptr};
  setenv(kChildVariable, folder.c_str(), 1);
  setenv("FORESHOCK_SOAK_SEED", std::to_string(seed).c_str(), 1);
  SoakChild child;
  if (posix_spawn(&child.pid, self.c_str(), &actions, nullptr, argv, environ) != 0) child.pid = 0;
  posix_spawn_file_actions_destroy(&actions);
  unsetenv(kChildVariable);
  close(ends[1]);
  child.acknowledgements = ends[0];
  return child;
}

TEST(StoreSoak, KillsUnderLoad) {
  const uint64_t kills = tests::NumberFromEnvironment("FORESHOCK_SOAK_CRASHES", 10),
                 seed = tests::NumberFromEnvironment("FORESHOCK_SOAK_SEED", 1);
  std::mt19937_64 random(seed);
  std::optional<test::Folder> folder;
  int64_t acknowledged = 0;
  for (uint64_t kill_number = 0; kill_number < kills; ++kill_number) {
    if (kill_number % 10 == 0) {
      folder.emplace();
      acknowledged = 0;
    }
    const SoakChild child = StartChild(folder->path() + "/db", seed + kill_number);
    ASSERT_GT(child.pid, 0);
    int64_t step = 0;
    bool alive = true;
    for (auto batches = 1 + random() % 60; alive && batches > 0; --batches) {
      alive = read(child.acknowledgements, &step, sizeof step) == sizeof step;
      if (alive) acknowledged = step;
    }
    for (auto turns = random() % 500; turns > 0; --turns) std::this_thread::yield();
    kill(child.pid, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child.pid, &status, 0), child.pid);
    ASSERT_TRUE(alive && WIFSIGNALED(status)) << "the child ended by itself";
    // What it still said before it died was durable as well.
    while (read(child.acknowledgements, &step, sizeof step) == sizeof step) acknowledged = step;
    close(child.acknowledgements);
    ASSERT_EQ(WrongWithFolder(Restless(folder->path() + "/db"), acknowledged), "")
        << "seed " << seed << ", kill " << kill_number;
  }
  setenv("FORESHOCK_SOAK_SEED", std::to_string(seed).c_str(), 1);
}

}  // namespace
}  // namespace foreshock::store
