// bench_store [FOLDER [STEPS [SEAL_STEPS]]]: the store in process. Ingest of 12,288 walks, one frame a step,
// 16 frames a commit; disk after settling; latencies of reading. Prints a table, and with --json as last
// argument the same as one JSON line.
//
// FOLDER must be on the disk to be measured; default: a new one below the current folder, removed afterwards.
// Processor time is that of the process, all threads, less that of making the data.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "data.h"
#include "foreshock/server/store/store.h"
#include "measure.h"

namespace {

using namespace foreshock;
using bench::BytesIn, bench::Must, bench::Now;
namespace fs = std::filesystem;

constexpr size_t kFramesOfCommit = 16;

// Medians of what the clock on the wall and the thread's own say: the second holds on a busy machine too.
struct Latency {
  double wall_ms = 0, cpu_ms = 0;
};

struct Figures {
  double ingest_msamples_per_cpu_s = 0, wall_s = 0, bytes_per_sample = 0;
  Latency series, last_step, older_step, reopen, cold_series;
  double peak_mib = 0;
};

double Median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

Latency Time(int rounds, const std::function<void()>& work) {
  std::vector<double> wall, cpu;
  for (int i = 0; i < rounds; ++i) {
    const double begin = Now(CLOCK_MONOTONIC), begin_cpu = Now(CLOCK_THREAD_CPUTIME_ID);
    work();
    cpu.push_back(1e3 * (Now(CLOCK_THREAD_CPUTIME_ID) - begin_cpu));
    wall.push_back(1e3 * (Now(CLOCK_MONOTONIC) - begin));
  }
  return {Median(wall), Median(cpu)};
}

void Ingest(store::Store& store, int64_t steps, Figures* figures) {
  const auto source = store.OpenSource(bench::HelloOfWalks("run"), 1);
  Must(source.status());
  bench::Walks walks(1);
  double making = 0;
  const double cpu = Now(CLOCK_PROCESS_CPUTIME_ID), wall = Now(CLOCK_MONOTONIC);
  for (int64_t step = 0; step < steps;) {
    const double begin = Now(CLOCK_THREAD_CPUTIME_ID);
    std::vector<store::Append> batch;
    for (size_t i = 0; i < kFramesOfCommit && step < steps; ++i, ++step) {
      wire::Frame frame = walks.Next();
      store::Append append;
      append.source = source->id;
      append.payload = wire::Encode(frame);
      append.head = {frame.seq, frame.step, 0};
      append.frame = std::make_shared<const wire::Frame>(std::move(frame));
      batch.push_back(std::move(append));
    }
    making += Now(CLOCK_THREAD_CPUTIME_ID) - begin;
    Must(store.AppendRecords(batch).status());
  }
  // What is left to be sealed belongs to the cost of these samples.
  Must(store.Settle());
  const double spent = Now(CLOCK_PROCESS_CPUTIME_ID) - cpu - making;
  figures->wall_s = Now(CLOCK_MONOTONIC) - wall;
  figures->ingest_msamples_per_cpu_s =
      static_cast<double>(steps) * static_cast<double>(bench::kSeriesCount) / spent / 1e6;
}

void ReadSeries(const store::Store& store, int64_t steps) {
  store::SeriesQuery query{.run = "run", .signal = kWqSigma1, .layer = 41};
  int64_t points = 0;
  Must(store.ReadSeries(query, [&](const store::SeriesPoint& point) {
    points += point.series.values.size() == bench::kHeads ? 1 : 0;
    return true;
  }));
  if (points != steps) Must(Status(Code::kDataLoss, std::to_string(points) + " points"));
}

void ReadStep(const store::Store& store, int64_t step) {
  const auto frame = store.ReadStep({.run = "run", .step = step});
  Must(frame.status());
  if (frame->frame.series.size() != bench::kSeriesCount / bench::kHeads) std::abort();
}

void Print(const Figures& f, bool json) {
  const std::pair<const char*, double> rows[] = {
      {"ingest_msamples_per_cpu_s", f.ingest_msamples_per_cpu_s},
      {"ingest_wall_s", f.wall_s},
      {"bytes_per_sample", f.bytes_per_sample},
      {"series_32_heads_ms", f.series.wall_ms},
      {"series_32_heads_cpu_ms", f.series.cpu_ms},
      {"last_step_ms", f.last_step.wall_ms},
      {"last_step_cpu_ms", f.last_step.cpu_ms},
      {"older_step_ms", f.older_step.wall_ms},
      {"older_step_cpu_ms", f.older_step.cpu_ms},
      {"reopen_ms", f.reopen.wall_ms},
      {"cold_series_ms", f.cold_series.wall_ms},
      {"peak_mib", f.peak_mib},
  };
  if (!json) {
    for (const auto& [name, value] : rows) std::printf("%-28s %10.3f\n", name, value);
    return;
  }
  std::printf("{");
  const char* comma = "";
  for (const auto& [name, value] : rows) {
    std::printf("%s\"%s\":%.4f", comma, name, value);
    comma = ",";
  }
  std::printf("}\n");
}

std::unique_ptr<store::Store> Open(const store::StoreOptions& options) {
  auto store = store::Store::Open(options);
  Must(store.status());
  return std::move(store).value();
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string(argv[argc - 1]) == "--json";
  if (json) --argc;
  std::string made;
  if (argc < 2) {
    made = "bench_store_XXXXXX";
    if (mkdtemp(made.data()) == nullptr) return 1;
  }
  store::StoreOptions options;
  options.folder = (made.empty() ? std::string(argv[1]) : made) + "/store";
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 2'000;
  if (argc > 3) options.seal_steps = static_cast<uint32_t>(std::atoi(argv[3]));
  Figures figures;
  auto store = Open(options);
  Ingest(*store, steps, &figures);
  figures.bytes_per_sample = static_cast<double>(BytesIn(options.folder)) /
                             (static_cast<double>(steps) * static_cast<double>(bench::kSeriesCount));
  ReadSeries(*store, steps);
  figures.series = Time(51, [&] { ReadSeries(*store, steps); });
  figures.last_step = Time(51, [&] { ReadStep(*store, store::kLastStep); });
  int64_t older = 0;
  figures.older_step = Time(21, [&] { ReadStep(*store, older = (older + 397) % (steps - 100)); });
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  figures.peak_mib = static_cast<double>(usage.ru_maxrss) / 1024;
  store.reset();
  figures.reopen = Time(1, [&] { store = Open(options); });
  figures.cold_series = Time(1, [&] { ReadSeries(*store, steps); });
  store.reset();
  Print(figures, json);
  if (!made.empty()) fs::remove_all(made);
  return 0;
}
