#include "step_view.h"

#include <algorithm>

namespace foreshock::detect {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

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

std::optional<double> StepView::Scalar(uint16_t signal) const {
  if (signal >= kSignalIds || !scalar_present_[signal]) return std::nullopt;
  return scalars_[signal];
}

std::optional<double> StepView::FiniteScalar(uint16_t signal) const {
  const std::optional<double> value = Scalar(signal);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace foreshock::detect
