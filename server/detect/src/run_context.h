// What all rules know of the run so far beyond the step at hand. Kept by the detector.
#pragma once

#include <cstdint>
#include <vector>

#include "foreshock/server/detect/detector.h"
#include "head_windows.h"
#include "loss_track.h"
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
  const LossTrack& loss() const { return loss_; }
  bool new_loss_level() const { return new_loss_level_; }  // this step closed a block of the loss
  bool ended() const { return ended_; }                    // an end was announced, well or not
  // True at the step at which QK normalization was switched on or off in the layer: baselines of what the
  // logits do start again.
  bool guard_switched(size_t layer) const { return switched_[layer]; }
  bool guarded(size_t layer) const { return guarded_[layer]; }
  // True where QK normalization is on as far as anyone can see: told by an event or the run's info, or every
  // recent logit of the layer lies within the bound that normalised q and k have, sqrt(head_dim). Weight
  // norms of such a layer move nothing. Also true of the first steps, when logits are small for another
  // reason.
  bool logits_bounded(size_t layer) const { return guarded_[layer] || bounded_[layer]; }
  // The recent logit_max of a head, median of 3; NaN before the first.
  double recent_logit(size_t head) const { return logits_.Level(head); }
  // sqrt(head_dim), or 0 when head_dim is unknown.
  double logit_bound() const { return logit_bound_; }
  bool any_guard_switched() const { return any_switched_; }
  // Steps since the last resume, phase change or guard switch; large when there was none.
  int64_t steps_since_disturbance() const { return step_ - disturbed_step_; }
  int64_t samples_since_disturbance() const { return samples_since_disturbance_; }

 private:
  void SetGuard(int32_t layer, bool on);
  void TrackLogits(const StepView& step);

  RunInfo info_;
  DetectorOptions options_;
  int64_t step_ = -1;
  int64_t disturbed_step_;
  int64_t samples_since_disturbance_ = 1 << 30;
  bool ended_ = false;
  bool any_switched_ = false;
  std::vector<bool> switched_, guarded_, bounded_;
  double logit_bound_;
  LossTrack loss_;
  bool new_loss_level_ = false;
  HeadWindows logits_;
};

}  // namespace foreshock::detect
