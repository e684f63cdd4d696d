// One step as dense arrays: what rules read. Built once a step, shared by all rules.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "foreshock/server/detect/detector.h"
#include "foreshock/server/detect/step_sample.h"

namespace foreshock::detect {

// The values of one signal over all heads, head index layer * heads + head.
struct HeadValues {
  bool any = false;                              // at least one head is present
  std::vector<double> value;                     // 0 where missing: ask present first
  std::vector<uint8_t> present;                  // 1: value holds (it may be NaN or Inf)
  std::vector<uint8_t> flags;                    // SeriesSample::Flag of heads that are present
  std::vector<double> weight;                    // NaN where unknown
  std::vector<double> error;                     // NaN where unknown
  bool ever_weight = false, ever_error = false;  // until one comes, all are NaN

  bool Finite(size_t head) const { return present[head] && std::isfinite(value[head]); }
  // The value where it is present and finite, else NaN.
  double ValueOrNan(size_t head) const {
    return Finite(head) ? value[head] : std::numeric_limits<double>::quiet_NaN();
  }
};

class StepView {
 public:
  static constexpr size_t kSignalIds = 160;  // catalogue ids lie below

  explicit StepView(const RunInfo& info);

  // Replaces the step. Layers and heads beyond the run's shape are left out.
  void Load(const StepSample& sample);

  int64_t step() const { return step_; }
  bool skipped() const { return skipped_; }
  size_t layers() const { return layers_; }
  size_t heads() const { return heads_; }  // per layer
  size_t all_heads() const { return layers_ * heads_; }
  int32_t LayerOf(size_t head) const { return static_cast<int32_t>(head / heads_); }
  int32_t HeadOf(size_t head) const { return static_cast<int32_t>(head % heads_); }

  std::optional<double> Scalar(uint16_t signal) const;
  // The scalar when it is there and finite.
  std::optional<double> FiniteScalar(uint16_t signal) const;
  const HeadValues& Heads(uint16_t signal) const { return signals_[signal < kSignalIds ? signal : 0]; }
  bool has_heads() const { return has_heads_; }  // some per-head signal came with this step
  std::span<const StepEvent> events() const { return events_; }

 private:
  void LoadSeries(const SeriesSample& series);
  void LoadRow(const SeriesSample& series, size_t n, HeadValues* signal);

  size_t layers_, heads_;
  int64_t step_ = -1;
  bool skipped_ = false;
  bool has_heads_ = false;
  std::array<double, kSignalIds> scalars_{};
  std::array<bool, kSignalIds> scalar_present_{};
  std::vector<HeadValues> signals_;
  std::vector<StepEvent> events_;
};

}  // namespace foreshock::detect
