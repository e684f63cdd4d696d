// What all rules know of the run so far beyond the step at hand. Kept by the detector.
#pragma once

#include <cstdint>
#include <vector>

#include "foreshock/server/detect/detector.h"
#include "step_view.h"

namespace foreshock::detect {

class RunContext {
 public:
  RunContext(const RunInfo& info, const DetectorOptions& options);

  // Takes the step's events. Call before the rules judge it.
  void Advance(const StepView& step);

  const RunInfo& info() const { return info_; }
  const DetectorOptions& options() const { return options_; }
  int64_t step() const { return step_; }
  bool ended() const { return ended_; }  // an end was announced, well or not
  // True at the step at which QK normalization was switched on or off in the layer: baselines of what the
  // logits do start again.
  bool guard_switched(size_t layer) const { return switched_[layer]; }
  bool guarded(size_t layer) const { return guarded_[layer]; }
  bool any_guard_switched() const { return any_switched_; }
  // Steps since the last resume, phase change or guard switch; large when there was none.
  int64_t steps_since_disturbance() const { return step_ - disturbed_step_; }
  int64_t samples_since_disturbance() const { return samples_since_disturbance_; }

 private:
  void SetGuard(int32_t layer, bool on);

  RunInfo info_;
  DetectorOptions options_;
  int64_t step_ = -1;
  int64_t disturbed_step_;
  int64_t samples_since_disturbance_ = 1 << 30;
  bool ended_ = false;
  bool any_switched_ = false;
  std::vector<bool> switched_, guarded_;
};

}  // namespace foreshock::detect
