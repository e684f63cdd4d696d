#include "step_view.h"

#include <algorithm>

namespace foreshock::detect {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool Consecutive(const uint32_t* heads, size_t n) {
  bool consecutive = true;
  for (size_t i = 0; i < n; ++i) consecutive &= heads[i] == heads[0] + static_cast<uint32_t>(i);
  return consecutive;
}

// n values, NaN for those beyond the end of `from`.
void CopyOrNan(const std::vector<double>& from, size_t n, double* to) {
  const size_t there = std::min(from.size(), n);
  std::copy_n(from.data(), there, to);
  std::fill_n(to + there, n - there, kNan);
}

}  // namespace

StepView::StepView(const RunInfo& info) : layers_(info.layers), heads_(info.heads), signals_(kSignalIds) {}

void StepView::Load(const StepSample& sample) {
  step_ = sample.step;
  skipped_ = sample.skipped;
  has_heads_ = false;
  events_ = sample.events;
  scalar_present_.fill(false);
  for (HeadValues& signal : signals_) {
    if (!signal.any) continue;
    signal.any = false;
    std::fill(signal.present.begin(), signal.present.end(), uint8_t{0});
  }
  for (const ScalarSample& scalar : sample.scalars) {
    if (scalar.signal >= kSignalIds) continue;
    scalars_[scalar.signal] = scalar.value;
    scalar_present_[scalar.signal] = true;
  }
  for (const SeriesSample& series : sample.series) LoadSeries(series);
}

void StepView::LoadSeries(const SeriesSample& series) {
  if (series.signal >= kSignalIds || series.layer >= layers_) return;
  HeadValues& signal = signals_[series.signal];
  if (signal.value.empty()) {
    signal.value.resize(all_heads());
    signal.present.resize(all_heads());
    signal.flags.resize(all_heads());
    signal.weight.assign(all_heads(), kNan);
    signal.error.assign(all_heads(), kNan);
  }
  const size_t n = std::min(series.heads.size(), series.values.size());
  signal.ever_weight = signal.ever_weight || !series.weights.empty();
  signal.ever_error = signal.ever_error || !series.errors.empty();
  if (n > 0 && series.heads[0] + n <= heads_ && Consecutive(series.heads.data(), n)) {
    LoadRow(series, n, &signal);
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    if (series.heads[i] >= heads_) continue;
    const size_t at = series.layer * heads_ + series.heads[i];
    signal.value[at] = series.values[i];
    signal.present[at] = 1;
    signal.flags[at] = series.flags;
    signal.weight[at] = i < series.weights.size() ? series.weights[i] : kNan;
    signal.error[at] = i < series.errors.size() ? series.errors[i] : kNan;
    signal.any = true;
    has_heads_ = true;
  }
}

// A layer as trainers send it: its heads in order, no one left out.
void StepView::LoadRow(const SeriesSample& series, size_t n, HeadValues* signal) {
  const size_t at = series.layer * heads_ + series.heads[0];
  std::copy_n(series.values.data(), n, signal->value.data() + at);
  std::fill_n(signal->present.data() + at, n, uint8_t{1});
  std::fill_n(signal->flags.data() + at, n, series.flags);
  if (signal->ever_weight) CopyOrNan(series.weights, n, signal->weight.data() + at);
  if (signal->ever_error) CopyOrNan(series.errors, n, signal->error.data() + at);
  signal->any = true;
  has_heads_ = true;
}

std::optional<double> StepView::Scalar(uint16_t signal) const {
  if (signal >= kSignalIds || !scalar_present_[signal]) return std::nullopt;
  return scalars_[signal];
}

std::optional<double> StepView::FiniteScalar(uint16_t signal) const {
  const std::optional<double> value = Scalar(signal);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace foreshock::detect
