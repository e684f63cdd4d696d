// bench_fleet SERVER_PID HOST:PORT [NODES [SECONDS [RATE...]]]: so many nodes of 8 ranks, eight nodes a run,
// against a foreshockd that runs already. Each rank sends a step of five scalars, every tenth one with 4
// signals of 12 layers of its 8 heads as well, RATE times a second; one line for each RATE: what arrived and
// when, and the server's processor time (of /proc/SERVER_PID) and memory.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "foreshock/base/process.h"
#include "node.h"

namespace {

using namespace foreshock::bench;

// The upper end of the bucket that holds the given share of all.
long Percentile(const FleetCounters& counters, const std::vector<uint64_t>& before, double share) {
  uint64_t all = 0, seen = 0;
  for (size_t i = 0; i < before.size(); ++i) all += counters.latency[i] - before[i];
  for (size_t i = 0; i < before.size(); ++i) {
    seen += counters.latency[i] - before[i];
    if (static_cast<double>(seen) >= share * static_cast<double>(all)) return 1l << i;
  }
  return 0;
}

// Zeros when the server has ended.
foreshock::ProcessUsage UsageOf(pid_t pid) {
  const auto usage = foreshock::ReadProcessUsage(pid);
  return usage.ok() ? *usage : foreshock::ProcessUsage{};
}

void Phase(std::vector<std::unique_ptr<Node>>& nodes, const FleetOptions& options, FleetCounters& counters,
           pid_t pid, double rate, double seconds) {
  std::vector<uint64_t> latency;
  for (const auto& bucket : counters.latency) latency.push_back(bucket);
  const uint64_t written = counters.written, acknowledged = counters.acknowledged, late = counters.late,
                 broken = counters.broken, values = counters.values;
  const double cpu = UsageOf(pid).cpu_seconds;
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto since = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  // Ranks take their turns evenly over a step's time.
  const double gap = 1 / (rate * options.nodes * options.ranks);
  uint64_t turn = 0;
  while (since() < seconds) {
    // Where this program cannot keep up, the steps that it missed are left out: sent/s says so.
    for (; static_cast<double>(turn) * gap < since() && since() < seconds; ++turn) {
      nodes[turn % nodes.size()]->Step(static_cast<uint32_t>(turn / nodes.size() % options.ranks));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const double wall = since(), used = UsageOf(pid).cpu_seconds - cpu;
  const double frames = static_cast<double>(counters.acknowledged - acknowledged);
  std::printf("%8.2f %10.0f %10.0f %8.0f %6.2f %9.1f %8ld %8ld %7llu %7llu %7llu\n", rate,
              static_cast<double>(counters.written - written) / wall, frames / wall,
              static_cast<double>(counters.values - values) / wall / 1000, used / wall, 1e6 * used / frames,
              Percentile(counters, latency, 0.5), Percentile(counters, latency, 0.99),
              static_cast<unsigned long long>(counters.late - late),
              static_cast<unsigned long long>(counters.broken - broken),
              static_cast<unsigned long long>(UsageOf(pid).resident_bytes >> 20));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_fleet SERVER_PID HOST:PORT [NODES [SECONDS [RATE...]]]\n");
    return 2;
  }
  const pid_t pid = std::atoi(argv[1]);
  FleetOptions options;
  options.address = argv[2];
  if (argc > 3) options.nodes = static_cast<uint32_t>(std::atoi(argv[3]));
  const double seconds = argc > 4 ? std::atof(argv[4]) : 20;
  std::vector<double> rates;
  for (int i = 5; i < argc; ++i) rates.push_back(std::atof(argv[i]));
  if (rates.empty()) rates = {0.1, 0.25, 0.5, 1};
  FleetCounters counters;
  const double cpu = UsageOf(pid).cpu_seconds;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Node>> nodes;
  for (uint32_t i = 0; i < options.nodes; ++i) nodes.push_back(std::make_unique<Node>(options, i, counters));
  const uint64_t all = uint64_t{options.nodes} * options.ranks;
  while (counters.greeted + counters.refused < all &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(120)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::printf("%llu of %llu streams of %u nodes greeted in %.1f s, %.1f s of the server's; memory %llu MiB\n",
              static_cast<unsigned long long>(counters.greeted.load()), static_cast<unsigned long long>(all),
              options.nodes, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
              UsageOf(pid).cpu_seconds - cpu,
              static_cast<unsigned long long>(UsageOf(pid).resident_bytes >> 20));
  std::printf("%8s %10s %10s %8s %6s %9s %8s %8s %7s %7s %7s\n", "steps/s", "sent/s", "durable/s", "kval/s",
              "CPUs", "us/frame", "p50 ms", "p99 ms", "late", "broken", "MiB");
  for (const double rate : rates) Phase(nodes, options, counters, pid, rate, seconds);
  std::printf("peak memory %llu MiB\n",
              static_cast<unsigned long long>(UsageOf(pid).peak_resident_bytes >> 20));
  nodes.clear();
  return 0;
}
