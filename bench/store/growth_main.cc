// bench_store_growth FOLDER RUNS LAYERS HEADS STEPS [IDLE_SECONDS]: what history costs as it grows, in
// process. RUNS runs send in turn, each a frame of LAYERS x HEADS walks of one signal a step; 256 frames a
// commit. Prints one JSON line: ingest (settling included), disk, memory before and after, reopening, reads
// of the first run, and what the process costs when nothing comes (CPU milliseconds a second, over
// IDLE_SECONDS).
//
//   bench_store_growth F 1 1 1 10000000      one head over ten million steps, read at 1,000 points
//   bench_store_growth F 1000 4 32 500       a thousand runs
//   bench_store_growth F 1 128 96 330000     10 GB
//
// bench_store_growth --reopen FOLDER RUN [FRAMES]: what opening such a folder costs, with its files out of
// the page cache: after a close, and after a process that appended FRAMES frames to RUN (4,000) was ended
// without closing. One JSON line.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "foreshock/base/catalogue.h"
#include "foreshock/base/process.h"
#include "foreshock/server/store/store.h"
#include "foreshock/wire/codec.h"
#include "measure.h"

namespace {

using namespace foreshock;
using bench::BytesIn, bench::Must, bench::Now;
namespace fs = std::filesystem;

constexpr size_t kFramesOfCommit = 256;

double MiB() {
  const auto usage = ReadProcessUsage();
  Must(usage.status());
  return static_cast<double>(usage->resident_bytes) / (1 << 20);
}

double MedianMs(int rounds, const std::function<void(int)>& work) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const double begin = Now(CLOCK_MONOTONIC);
    work(i);
    times.push_back(1e3 * (Now(CLOCK_MONOTONIC) - begin));
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<size_t>(rounds / 2)];
}

std::unique_ptr<store::Store> Open(const std::string& folder) {
  auto store = store::Store::Open({.folder = folder});
  Must(store.status());
  return std::move(store).value();
}

struct Size {
  size_t runs = 1, layers = 1, heads = 1;
  int64_t steps = 1;
  double samples() const { return static_cast<double>(runs * layers * heads) * static_cast<double>(steps); }
};

// CPU seconds less those of making the data.
double Ingest(store::Store& store, const Size& size) {
  std::vector<store::SourceId> sources;
  for (size_t run = 0; run < size.runs; ++run) {
    wire::Hello hello;
    hello.run = "run" + std::to_string(run);
    hello.attempt = "1";
    hello.incarnation = 1;
    const auto source = store.OpenSource(hello, 1);
    Must(source.status());
    sources.push_back(source->id);
  }
  std::mt19937 random(1);
  std::vector<float> noise(4096);
  std::normal_distribution<float> normal(0, 0.01f);
  for (float& value : noise) value = 1 + normal(random);
  std::vector<float> levels(size.runs * size.layers * size.heads, 3.0f);
  const double cpu = Now(CLOCK_PROCESS_CPUTIME_ID);
  double making = 0, begin = Now(CLOCK_THREAD_CPUTIME_ID);
  std::vector<store::Append> batch;
  const auto commit = [&] {
    making += Now(CLOCK_THREAD_CPUTIME_ID) - begin;
    Must(store.AppendRecords(batch).status());
    batch.clear();
    begin = Now(CLOCK_THREAD_CPUTIME_ID);
  };
  for (int64_t step = 0; step < size.steps; ++step) {
    size_t level = 0;
    for (size_t run = 0; run < size.runs; ++run) {
      wire::Frame frame;
      frame.step = step;
      frame.seq = static_cast<uint64_t>(step + 1);
      frame.time_unix_ns = 1'700'000'000'000'000'000 + static_cast<uint64_t>(step) * 1'000'000'000;
      for (uint32_t layer = 0; layer < size.layers; ++layer) {
        wire::Series& series = frame.series.emplace_back();
        series.signal = kLogitMax;
        series.layer = layer;
        for (uint32_t head = 0; head < size.heads; ++head) {
          series.heads.push_back(head);
          float& value = levels[level++];
          value *= noise[random() % noise.size()];
          value = std::clamp(value, 1e-3f, 1e3f);
          series.values.push_back(value);
        }
      }
      store::Append& append = batch.emplace_back();
      append.source = sources[run];
      append.payload = wire::Encode(frame);
      append.head = {frame.seq, frame.step, 0};
      append.frame = std::make_shared<const wire::Frame>(std::move(frame));
      if (batch.size() == kFramesOfCommit) commit();
    }
  }
  commit();
  making += Now(CLOCK_THREAD_CPUTIME_ID) - begin;
  Must(store.Settle());
  return Now(CLOCK_PROCESS_CPUTIME_ID) - cpu - making;
}

// As after a restart of the machine: nothing of the folder is in memory.
void Forget(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

struct Cost {
  double open_ms, open_cpu_ms, series_ms, step_ms;
};

Cost Reopen(const std::string& folder, const std::string& run) {
  Forget(folder);
  Cost cost{};
  double wall = Now(CLOCK_MONOTONIC);
  const double cpu = Now(CLOCK_PROCESS_CPUTIME_ID);
  const auto store = Open(folder);
  cost.open_ms = 1e3 * (Now(CLOCK_MONOTONIC) - wall);
  cost.open_cpu_ms = 1e3 * (Now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  const int64_t last = *store->GetRun(run)->newest().last_step;
  wall = Now(CLOCK_MONOTONIC);
  const store::SeriesQuery query{
      .run = run, .signal = kLogitMax, .layer = 0, .from_step = last / 2, .to_step = last / 2 + 1999};
  size_t points = 0;
  Must(store->ReadSeries(query, [&](store::SeriesPoint) { return ++points > 0; }));
  cost.series_ms = 1e3 * (Now(CLOCK_MONOTONIC) - wall);
  wall = Now(CLOCK_MONOTONIC);
  Must(store->ReadStep({.run = run}).status());
  cost.step_ms = 1e3 * (Now(CLOCK_MONOTONIC) - wall);
  return cost;
}

// Frames like the run's last one, and no close: the log has to be replayed.
void AppendAndDie(const std::string& folder, const std::string& run, int64_t frames) {
  const auto store = Open(folder);
  const auto attempt = store->GetRun(run)->newest();
  const auto last = store->ReadStep({.run = run});
  Must(last.status());
  std::vector<store::Append> batch;
  for (int64_t i = 1; i <= frames; ++i) {
    wire::Frame frame = last->frame;
    frame.step += i;
    frame.seq += static_cast<uint64_t>(i);
    store::Append& append = batch.emplace_back();
    append.source = attempt.sources.front().id;
    append.payload = wire::Encode(frame);
    append.head = {frame.seq, frame.step, 0};
    if (batch.size() < 16 && i < frames) continue;
    Must(store->AppendRecords(batch).status());
    batch.clear();
  }
  _exit(0);
}

int ReopenMain(const std::string& folder, const std::string& run, int64_t frames) {
  const Cost closed = Reopen(folder, run);
  const pid_t child = fork();
  if (child == 0) {
    // A program of its own: of this one only a thread would be left.
    const std::string count = std::to_string(frames);
    execl("/proc/self/exe", "bench_store_growth", "--die", folder.c_str(), run.c_str(), count.c_str(),
          nullptr);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  const Cost died = Reopen(folder, run);
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) files += entry.is_regular_file() ? 1 : 0;
  std::printf("{\"disk_mib\": %.0f, \"files\": %zu", static_cast<double>(BytesIn(folder)) / (1 << 20), files);
  for (const auto& [name, cost] : {std::pair{"closed", closed}, std::pair{"died", died}}) {
    std::printf(
        ", \"%s\": {\"open_ms\": %.0f, \"open_cpu_ms\": %.0f, \"first_series_ms\": %.1f, \"last_step_ms\": "
        "%.1f}",
        name, cost.open_ms, cost.open_cpu_ms, cost.series_ms, cost.step_ms);
  }
  std::printf("}\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "--die") AppendAndDie(argv[2], argv[3], std::atoll(argv[4]));
  if (argc >= 4 && std::string(argv[1]) == "--reopen")
    return ReopenMain(argv[2], argv[3], argc > 4 ? std::atoll(argv[4]) : 4000);
  if (argc < 6) return 2;
  const std::string folder = argv[1];
  const Size size{static_cast<size_t>(std::atoll(argv[2])), static_cast<size_t>(std::atoll(argv[3])),
                  static_cast<size_t>(std::atoll(argv[4])), std::atoll(argv[5])};
  const auto idle_s = static_cast<unsigned>(argc > 6 ? std::atoi(argv[6]) : 20);
  const double mib_before = MiB();
  auto store = Open(folder);
  const double cpu_s = Ingest(*store, size);
  const double mib_after = MiB();
  const uint64_t wal = store->stats().wal_bytes;
  const double idle_begin = Now(CLOCK_PROCESS_CPUTIME_ID);
  sleep(idle_s);
  const double idle_ms_per_s = 1e3 * (Now(CLOCK_PROCESS_CPUTIME_ID) - idle_begin) / std::max(idle_s, 1u);
  store.reset();
  const double disk = static_cast<double>(BytesIn(folder));
  const double begin = Now(CLOCK_MONOTONIC);
  store = Open(folder);
  const double reopen_ms = 1e3 * (Now(CLOCK_MONOTONIC) - begin);
  const store::SeriesQuery chart{
      .run = "run0", .signal = kLogitMax, .layer = 0, .heads = {0}, .max_points = 1'000};
  size_t buckets = 0;
  const auto rollup = [&](int) {
    const auto got = store->ReadRollup(chart);
    Must(got.status());
    buckets = got->buckets.size();
  };
  const double cold_ms = MedianMs(1, rollup);
  const double rollup_ms = MedianMs(21, rollup);
  const auto step = [&](int64_t at) { Must(store->ReadStep({.run = "run0", .step = at}).status()); };
  const double last_ms = MedianMs(21, [&](int) { step(store::kLastStep); });
  const double older_ms =
      MedianMs(21, [&](int i) { step((i + 1) * 39'916'801LL % std::max<int64_t>(size.steps - 100, 1)); });
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"runs\": %zu, \"values_per_frame\": %zu, \"steps\": %lld, \"msamples_per_cpu_s\": %.2f, "
      "\"frames_per_cpu_s\": %.0f, "
      "\"bytes_per_sample\": %.2f, \"disk_mib\": %.1f, \"wal_mib\": %.1f, \"mib_before\": %.0f, "
      "\"mib_after\": %.0f, "
      "\"peak_mib\": %.0f, \"idle_cpu_ms_per_s\": %.2f, \"reopen_ms\": %.1f, \"rollup_cold_ms\": %.2f, "
      "\"rollup_1000_points_ms\": %.2f, \"buckets\": %zu, \"last_step_ms\": %.3f, \"older_step_ms\": %.3f}\n",
      size.runs, size.layers * size.heads, static_cast<long long>(size.steps), size.samples() / cpu_s / 1e6,
      static_cast<double>(size.runs) * static_cast<double>(size.steps) / cpu_s, disk / size.samples(),
      disk / (1 << 20), static_cast<double>(wal) / (1 << 20), mib_before, mib_after,
      static_cast<double>(usage.ru_maxrss) / 1024, idle_ms_per_s, reopen_ms, cold_ms, rollup_ms, buckets,
      last_ms, older_ms);
  return 0;
}
