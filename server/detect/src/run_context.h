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
  // QK normalization was switched on in some layer while the run was watched: a guard is at work in it.
  bool guard_at_work() const { return guarded_layers_ > 0; }
  size_t guarded_layers() const { return guarded_layers_; }  // switched on in, as events told
  // Some head of the layer grows away from the others, or has done so and is not calm again: effects, in the
  // words of qk_runaway, up to one sample old.
  bool stirs(size_t layer) const { return stirs_[layer]; }
  bool any_stirs() const { return any_stirs_; }
  void SetStirs(const std::vector<bool>& layers);
  // Errors of attention in this layer cannot hurt, as far as anyone can see: its logits are bounded, or a
  // guard is at work in the run and has found nothing to switch off here, where nothing grows either.
  bool contained(size_t layer) const { return logits_bounded(layer) || (guard_at_work() && !stirs(layer)); }
  // The recent logit_max of a head, median of 3; NaN before the first.
  double recent_logit(size_t head) const { return logits_.Level(head); }
  // sqrt(head_dim), or 0 when head_dim is unknown.
  double logit_bound() const { return logit_bound_; }
  bool any_guard_switched() const { return any_switched_; }
  // True at a step of a resume or of a new phase.
  bool new_phase() const { return new_phase_; }
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
  bool new_phase_ = false;
  bool any_stirs_ = false;
  std::vector<bool> switched_, guarded_, bounded_, stirs_;
  size_t guarded_layers_ = 0;  // of guarded_, without what the model normalises itself
  double logit_bound_;
  LossTrack loss_;
  bool new_loss_level_ = false;
  HeadWindows logits_;
};

}  // namespace foreshock::detect
