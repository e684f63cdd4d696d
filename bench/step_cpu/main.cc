// bench_step_cpu ADDRESS [STEPS [STEPS_A_SECOND]]: processor time of the trainer's own thread inside of fs_* calls, per step.
//
// A trainer of 96 layers of 32 heads whose numbers (loss, gradient norm, learning rate, and a frame of all layers) go through the
// SDK's step path at a pace, while the agent or server behind ADDRESS is there, away, or comes and goes. What kernels cost is
// measured elsewhere (bench_kernels, bench/pytorch_overhead): layers have no weights here. Prints percentiles; the aim is
// 100 us at 99.9 %. A step that another program interrupts shows in wall time, not here.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "foreshock/foreshock.h"

namespace {

constexpr uint32_t kLayers = 96, kHeads = 32;

double ThreadMicroseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

fs_run* Open(const char* address) {
  fs_options options;
  fs_options_init(&options);
  options.address = address;
  options.run = "step-cpu";
  options.attempt = "1";
  options.budget = 1;
  fs_run* run = nullptr;
  if (fs_open(&options, &run) != FS_OK) return nullptr;
  for (uint32_t i = 0; i < kLayers; ++i) {
    fs_layer layer;
    fs_layer_init(&layer);
    layer.layer = i;
    layer.query_heads = layer.kv_heads = kHeads;
    layer.head_dim = 128;
    if (fs_add_layer(run, &layer) != FS_OK) return nullptr;
  }
  return run;
}

double Step(fs_run* run, int64_t step) {
  const double begin = ThreadMicroseconds();
  fs_step_begin(run, step);
  for (uint32_t i = 0; i < kLayers; ++i) (void)fs_wants_attention(run, i);
  fs_loss(run, 2.5, 1e6);
  fs_scalar(run, FS_GRAD_NORM, 1.0);
  fs_scalar(run, FS_LEARNING_RATE, 3e-4);
  fs_step_end(run);
  return ThreadMicroseconds() - begin;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "bench_step_cpu: usage: ADDRESS [STEPS [STEPS_A_SECOND]]\n");
    return 2;
  }
  if (std::string(FORESHOCK_BUILD_TYPE) != "Release") std::printf("not a Release build: no figures to quote\n");
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 20'000;
  const double rate = argc > 3 ? std::atof(argv[3]) : 500;
  fs_run* run = Open(argv[1]);
  if (run == nullptr || steps < 1000) return 2;
  std::vector<double> times;
  times.reserve(static_cast<size_t>(steps));
  const auto pace = std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(1 / rate));
  auto next = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < steps; ++step) {
    const double us = Step(run, step);
    if (step >= 100) times.push_back(us);  // the first ones allocate and start the thread
    std::this_thread::sleep_until(next += pace);
  }
  fs_stats stats;
  fs_stats_init(&stats);
  fs_get_stats(run, &stats);
  fs_close(run, FS_FINISHED);
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) { return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))]; };
  std::printf("thread CPU inside fs_* a step, us: p50 %.1f, p99 %.1f, p99.9 %.1f, most %.1f; %lld steps, %llu dropped\n", at(0.5),
              at(0.99), at(0.999), times.back(), static_cast<long long>(steps),
              static_cast<unsigned long long>(stats.queue_dropped + stats.window_dropped));
  return 0;
}
