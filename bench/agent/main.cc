// Times what the agent's data path is made of: checksum, queue, spool (append, read, reopen with and without
// index files). Ratios within one run are what counts.
//
// usage: bench_agent [FOLDER]    a folder on the disk to be measured; default: a new one below the current
// folder
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "foreshock/agent/spool.h"
#include "foreshock/base/crc32c.h"
#include "foreshock/base/drop_oldest_queue.h"

namespace {

using namespace foreshock;
using namespace foreshock::agent;

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// CPU time: what only computes is measured the same on a busy machine.
double CpuSeconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec t{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  };
  const double begin = now();
  work();
  return now() - begin;
}

double MedianSeconds(int rounds, double (*timer)(const std::function<void()>&),
                     const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) times.push_back(timer(work));
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

void BenchChecksum() {
  const std::string data(64 << 20, 'x');
  volatile uint32_t sink = 0;
  const double fast = MedianSeconds(5, CpuSeconds, [&] { sink = Crc32c(data); });
  const double table =
      MedianSeconds(5, CpuSeconds, [&] { sink = Crc32cExtendPortable(0, data.data(), data.size()); });
  std::printf("crc32c: %.1f GB/s, by tables %.1f GB/s, ratio %.1f\n", 0.067108864 / fast, 0.067108864 / table,
              table / fast);
}

void BenchQueue() {
  constexpr int kItems = 10'000'000;
  BoundedDropOldestQueue<uint64_t> queue(64);
  const double full = MedianSeconds(3, CpuSeconds, [&] {
    for (int i = 0; i < kItems; ++i) {
      queue.Slot() = static_cast<uint64_t>(i);
      queue.Publish();
    }
  });
  uint64_t gap = 0;
  const double pair = MedianSeconds(3, CpuSeconds, [&] {
    for (int i = 0; i < kItems; ++i) {
      queue.Slot() = static_cast<uint64_t>(i);
      queue.Publish();
      queue.Take(&gap);
    }
  });
  std::printf("drop-oldest queue, one thread: publish into a full queue %.1f ns, publish and take %.1f ns\n",
              full / kItems * 1e9, pair / kItems * 1e9);
}

std::unique_ptr<Spool> Open(const std::string& dir) {
  SpoolRecovery recovery;
  auto spool = Spool::Open(PosixFileSystem(), dir, {}, &recovery);
  if (!spool.ok()) {
    std::fprintf(stderr, "%s\n", spool.status().ToString().c_str());
    std::exit(1);
  }
  return std::move(spool).value();
}

SourceKey Key(int rank) { return {"run", "attempt", static_cast<uint32_t>(rank), 1}; }

// `threads` sources append `records` records of `bytes` each, `batch` at a time, every batch durable.
void BenchAppend(const std::string& dir, int threads, uint64_t records, size_t bytes, uint64_t batch) {
  std::filesystem::remove_all(dir);
  auto spool = Open(dir);
  const std::string payload(bytes, 'p');
  const double seconds = Seconds([&] {
    std::vector<std::thread> running;
    for (int rank = 0; rank < threads; ++rank) {
      running.emplace_back([&, rank] {
        spool->OpenSource(Key(rank), "hello").IgnoreError();
        std::vector<SpoolItem> items(batch);
        for (uint64_t seq = 1; seq + batch <= records + 1; seq += batch) {
          for (uint64_t i = 0; i < batch; ++i) items[i] = {seq + i, 2, payload};
          if (!spool->Append(Key(rank), items).ok()) std::exit(1);
        }
      });
    }
    for (auto& thread : running) thread.join();
  });
  const SpoolStats stats = spool->Stats();
  std::printf(
      "append, %d sources, records of %zu bytes, %llu a batch: %.0f records/s, %.0f MB/s, %.1f records a "
      "sync\n",
      threads, bytes, static_cast<unsigned long long>(batch), static_cast<double>(stats.appended) / seconds,
      static_cast<double>(stats.bytes) / seconds / 1e6,
      static_cast<double>(stats.appended) / static_cast<double>(stats.syncs));
}

void BenchReopen(const std::string& dir) {
  BenchAppend(dir, 8, 160, 512 << 10, 16);
  const double megabytes = 8 * 160 * 0.524288;
  uint64_t read = 0;
  {
    auto spool = Open(dir);
    const double seconds = Seconds([&] {
      SpoolRecord record;
      auto reader = spool->Read(Key(3), 0);
      while (reader->Next(&record, std::chrono::nanoseconds(0)).value()) ++read;
    });
    std::printf("read one of 8 sources (%llu records) out of %.0f MB: %.0f ms\n",
                static_cast<unsigned long long>(read), megabytes, seconds * 1e3);
  }
  const double with = MedianSeconds(5, Seconds, [&] { Open(dir); });
  std::vector<double> without;
  for (int i = 0; i < 3; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
      if (entry.path().extension() == ".index") std::filesystem::remove(entry.path());
    }
    without.push_back(Seconds([&] { Open(dir); }));
  }
  std::nth_element(without.begin(), without.begin() + 1, without.end());
  std::printf("open %.0f MB: %.1f ms with index files, %.0f ms without\n", megabytes, with * 1e3,
              without[1] * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  if (std::strcmp(FORESHOCK_BUILD_TYPE, "Release") != 0) {
    std::fprintf(stderr,
                 "bench_agent: built as " FORESHOCK_BUILD_TYPE ", figures count in a Release build only\n");
    return 2;
  }
  const std::string dir = argc > 1 ? argv[1] : "bench_agent_spool." + std::to_string(::getpid());
  BenchChecksum();
  BenchQueue();
  BenchAppend(dir, 1, 2000, 1000, 1);
  BenchAppend(dir, 8, 1000, 1000, 1);
  BenchAppend(dir, 8, 2000, 50'000, 16);
  BenchReopen(dir);
  std::filesystem::remove_all(dir);
  return 0;
}
