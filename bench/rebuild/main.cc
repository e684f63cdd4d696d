// bench_rebuild [STEPS LAYERS HEADS]: what it costs the alert service to come back to a long run after a restart,
// with its bound on what is read again and without. 1,000,000 steps of 12 layers x 12 heads by default, four
// per-head signals in every tenth step.
//
// Prints seconds of processor time and the steps that were read again. Resident memory is that of the process.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "foreshock/base/catalogue.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/alert_core/alert_engine.h"
#include "foreshock/tests/history.h"

namespace {

using foreshock::tests::History;

constexpr int64_t kBatch = 5'000;

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

foreshock::wire::Hello HelloOf(uint32_t layers, uint32_t heads) {
  foreshock::wire::Hello hello = foreshock::tests::SmallHello("run");
  hello.model.layers.clear();
  for (uint32_t l = 0; l < layers; ++l) {
    foreshock::wire::Layer layer;
    layer.layer = l;
    layer.query_heads = layer.kv_heads = heads;
    layer.head_dim = 64;
    hello.model.layers.push_back(layer);
  }
  return hello;
}

foreshock::wire::Frame FrameOf(int64_t step, uint32_t layers, uint32_t heads) {
  using foreshock::tests::Scalar;
  const auto wobble = static_cast<float>(step * 7919 % 1000) * 1e-4f;
  std::vector<foreshock::wire::Series> series = {Scalar(foreshock::kLoss, 2 + wobble),
                                                 Scalar(foreshock::kGradNorm, 1 + wobble)};
  for (uint32_t l = 0; l < layers && step % 10 == 0; ++l) {
    for (const uint16_t signal : {foreshock::kLogitMax, foreshock::kWqSigma1, foreshock::kQkSigma1,
                                  foreshock::kEntropyMean}) {
      std::vector<float> values(heads, 3 + wobble);
      series.push_back(foreshock::tests::Heads(signal, l, std::move(values), std::vector<float>(heads, 1)));
    }
  }
  return foreshock::tests::Step(step, std::move(series));
}

void Write(History* history, const foreshock::store::SourceId& source, int64_t steps, uint32_t layers,
           uint32_t heads) {
  for (int64_t first = 0; first < steps; first += kBatch) {
    std::vector<foreshock::store::Append> records;
    for (int64_t step = first; step < std::min(first + kBatch, steps); ++step) {
      foreshock::wire::Frame frame = FrameOf(step, layers, heads);
      frame.seq = static_cast<uint64_t>(step) + 1;
      foreshock::store::Append record;
      record.source = source;
      record.payload = foreshock::wire::Encode(frame);
      record.head = {frame.seq, step, 0};
      record.frame = std::make_shared<const foreshock::wire::Frame>(std::move(frame));
      records.push_back(std::move(record));
    }
    if (!history->store().AppendRecords(records).ok()) std::abort();
  }
}

// A state as of the last step, as if all steps had been judged.
void SaveState(History* history, const foreshock::wire::Hello& hello, int64_t steps) {
  foreshock::detect::RunInfo info;
  info.layers = static_cast<uint32_t>(hello.model.layers.size());
  info.heads = hello.model.layers[0].query_heads;
  foreshock::alert::AlertEngine engine("run", "1", info);
  foreshock::detect::StepSample sample;
  sample.step = steps - 1;
  sample.scalars = {{foreshock::kLoss, 2}};
  engine.Observe(sample);
  const foreshock::store::MetaEntry entries[] = {{"alert_engine", "run", "1", "open\n" + engine.SaveState()}};
  if (!history->store().PutMeta(entries).ok()) std::abort();
}

void Rebuild(const char* what, History* history, const foreshock::alert::RebuildOptions& rebuild) {
  history->Reopen();
  foreshock::alert::AlertOptions options;
  options.rebuild = rebuild;
  options.tick_interval = std::chrono::hours(1);
  const double begin = CpuSeconds();
  auto service = foreshock::alert::AlertService::Start(options, &history->store(), &history->clock());
  if (!service.ok()) std::abort();
  (*service)->Flush();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%-10s %8llu steps read again, %7.2f s, at most %ld MiB resident\n", what,
              static_cast<unsigned long long>((*service)->counters().steps), CpuSeconds() - begin,
              usage.ru_maxrss / 1024);
}

}  // namespace

int main(int argc, char** argv) {
#ifndef NDEBUG
  std::fprintf(stderr, "bench_rebuild: not an optimised build\n");
  return 1;
#endif
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  const auto layers = static_cast<uint32_t>(argc > 2 ? std::atoi(argv[2]) : 12);
  const auto heads = static_cast<uint32_t>(argc > 3 ? std::atoi(argv[3]) : 12);
  History history;
  const foreshock::wire::Hello hello = HelloOf(layers, heads);
  const auto source = history.Hello(hello);
  Write(&history, source, steps, layers, heads);
  SaveState(&history, hello, steps);
  std::printf("%lld steps, %u x %u heads\n", static_cast<long long>(steps), layers, heads);
  Rebuild("bounded", &history, {});
  Rebuild("unbounded", &history, {.head_steps = steps});
  return 0;
}
