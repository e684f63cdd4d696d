// bench_detect [LAYERS HEADS STEPS]: what all built-in rules cost on one core, and what user rules add.
//
// A healthy run of 1,536 heads by default: 12 per-head signals in every 10th step, scalars in every step.
// Prints the mean time a step and that of a step with per-head signals: the built-in rules alone, then with
// ten user rules, one a function, each over every head with a window of 48 samples. And the memory that one
// run's rules keep at the end: bytes of the heap that are in use more than before the run.
#include <malloc.h>
#include <time.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "foreshock/base/catalogue.h"
#include "foreshock/server/detect/detector.h"

namespace {

using foreshock::detect::StepSample;

constexpr uint16_t kSignals[] = {
    foreshock::kWqSigma1,    foreshock::kWkSigma1,           foreshock::kQkSigma1,
    foreshock::kLogitMax,    foreshock::kTiedRowFraction,    foreshock::kTiedRowFractionBf16,
    foreshock::kEntropyMean, foreshock::kUpdateProjection1,  foreshock::kUpdateNorm,
    foreshock::kDeltaError,  foreshock::kOutputRoundingBias, foreshock::kSaturatedRowFraction};

// CPU time: a busy machine misleads little.
double CpuMillis() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// Of all arenas, and what is mapped outside them.
size_t HeapBytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

double Noise(uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 32;
  return static_cast<double>(x >> 11) / static_cast<double>(uint64_t{1} << 52) - 1;
}

double Value(uint16_t signal, int64_t step, uint32_t head) {
  const double noise =
      Noise(static_cast<uint64_t>(signal) * 1000003 + static_cast<uint64_t>(step) * 7919 + head);
  if (signal == foreshock::kOutputRoundingBias || signal == foreshock::kDeltaError) return 1e-5 * noise;
  if (signal == foreshock::kUpdateProjection1) return 0.1 * noise;
  return (signal == foreshock::kLogitMax ? 20 : 1) * (1 + 0.05 * noise);
}

void AddHeads(uint32_t layers, uint32_t heads, StepSample* sample) {
  for (const uint16_t signal : kSignals) {
    for (uint32_t layer = 0; layer < layers; ++layer) {
      foreshock::detect::SeriesSample series;
      series.signal = signal;
      series.layer = layer;
      for (uint32_t head = 0; head < heads; ++head) {
        series.heads.push_back(head);
        series.values.push_back(Value(signal, sample->step, layer * heads + head));
      }
      sample->series.push_back(std::move(series));
    }
  }
}

foreshock::detect::UserRulesPtr TenUserRules() {
  using foreshock::detect::Reduction;
  using foreshock::detect::WindowFunction;
  auto rules = std::make_shared<foreshock::detect::UserRules>();
  for (const auto function :
       {WindowFunction::kValue, WindowFunction::kDelta, WindowFunction::kSlope,
        WindowFunction::kRatioToMedian, WindowFunction::kRatioToMedianHead, WindowFunction::kZScore,
        WindowFunction::kReduce, WindowFunction::kReduce, WindowFunction::kReduce, WindowFunction::kAbsent}) {
    foreshock::detect::UserRule rule;
    rule.name = "rule_" + std::to_string(rules->size());
    rule.signal = kSignals[rules->size()];
    rule.function = function;
    rule.window.samples = 48;
    rule.threshold = 1e9;
    if (rules->size() == 7) rule.window_reduction.kind = Reduction::Kind::kMedian;
    if (rules->size() == 8) rule.window_reduction = {Reduction::Kind::kQuantile, 0.9};
    rules->push_back(rule);
  }
  return rules;
}

struct Shape {
  uint32_t layers, heads;
  int64_t steps;
  bool print;  // what is found
};

void Run(const char* what, const Shape& shape, const foreshock::detect::UserRulesPtr& user_rules) {
  foreshock::detect::RunInfo info;
  info.layers = shape.layers;
  info.heads = shape.heads;
  info.head_dim = 128;
  info.sample_every_steps = 10;
  foreshock::detect::DetectorOptions options;
  options.user_rules = user_rules;
  const size_t heap_before = HeapBytes();
  foreshock::detect::Detector detector(info, options);
  double all = 0, sampled = 0;
  int64_t sampled_steps = 0;
  size_t findings = 0;
  for (int64_t step = 0; step < shape.steps; ++step) {
    StepSample sample;
    sample.step = step;
    sample.scalars = {{foreshock::kLoss, 2 + 0.05 * Noise(static_cast<uint64_t>(step))},
                      {foreshock::kGradNorm, 1 + 0.2 * Noise(static_cast<uint64_t>(step) + 77)}};
    if (step % 10 == 0) AddHeads(shape.layers, shape.heads, &sample);
    const double begin = CpuMillis();
    for (const auto& verdict : detector.Observe(sample)) {
      findings += verdict.findings.size();
      for (const auto& finding : verdict.findings) {
        if (shape.print) std::printf("%s %s\n", verdict.rule.data(), finding.summary.c_str());
      }
    }
    const double ms = CpuMillis() - begin;
    all += ms;
    if (step % 10 != 0) continue;
    sampled += ms;
    ++sampled_steps;
  }
  std::printf(
      "%s: %u heads, 12 signals every 10 steps: %.3f ms a step, %.3f ms a step with heads, %zu findings\n",
      what, shape.layers * shape.heads, all / static_cast<double>(shape.steps),
      sampled / static_cast<double>(sampled_steps), findings);
  const size_t heap = HeapBytes() - heap_before;
  std::printf("%s: %.1f MiB of state after %lld steps, %.1f KiB a head\n", what,
              static_cast<double>(heap) / (1 << 20), static_cast<long long>(shape.steps),
              static_cast<double>(heap) / 1024 / (shape.layers * shape.heads));
}

}  // namespace

int main(int argc, char** argv) {
#ifndef NDEBUG
  std::fprintf(stderr, "bench_detect: not an optimised build\n");
  return 1;
#endif
  Shape shape;
  shape.layers = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 48);
  shape.heads = static_cast<uint32_t>(argc > 2 ? std::atoi(argv[2]) : 32);
  shape.steps = argc > 3 ? std::atoi(argv[3]) : 4000;
  shape.print = argc > 4;
  Run("built-in rules", shape, nullptr);
  Run("and ten user rules", shape, TenUserRules());
  return 0;
}
