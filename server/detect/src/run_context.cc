#include "run_context.h"

#include <algorithm>
#include <cmath>

#include "foreshock/base/catalogue.h"

namespace foreshock::detect {
namespace {

constexpr size_t kRecentLogits = 3;
constexpr double kBoundSlack = 1.01;  // rounding of the scores

}  // namespace

RunContext::RunContext(const RunInfo& info, const DetectorOptions& options)
    : info_(info),
      options_(options),
      disturbed_step_(-(int64_t{1} << 60)),
      switched_(info.layers),
      guarded_(info.layers, info.qk_norm),
      bounded_(info.layers),
      stirs_(info.layers),
      logit_bound_(std::sqrt(static_cast<double>(info.head_dim))),
      logits_(size_t{info.layers} * info.heads, 0, kRecentLogits) {}

void RunContext::Advance(const StepView& step) {
  step_ = step.step();
  std::fill(switched_.begin(), switched_.end(), false);
  any_switched_ = false;
  new_phase_ = false;
  ++samples_since_disturbance_;
  for (const StepEvent& event : step.events()) {
    switch (event.kind) {
      case StepEvent::Kind::kGuardOn:
        SetGuard(event.layer, true);
        break;
      case StepEvent::Kind::kGuardOff:
        SetGuard(event.layer, false);
        break;
      case StepEvent::Kind::kResume:
      case StepEvent::Kind::kPhase:
        disturbed_step_ = step_;
        samples_since_disturbance_ = 0;
        new_phase_ = true;
        break;
      case StepEvent::Kind::kFinished:
      case StepEvent::Kind::kFailed:
        ended_ = true;
        break;
      default:
        break;
    }
  }
  if (samples_since_disturbance_ == 0) loss_.Restart();
  const auto loss = step.FiniteScalar(kLoss);
  new_loss_level_ = loss && loss_.Push(step_, *loss);
  TrackLogits(step);
}

void RunContext::SetGuard(int32_t layer, bool on) {
  for (size_t l = 0; l < guarded_.size(); ++l) {
    if (layer >= 0 && l != static_cast<size_t>(layer)) continue;
    if (guarded_[l] != on) switched_[l] = true;
    guarded_[l] = on;
  }
  const auto layers = static_cast<size_t>(std::count(guarded_.begin(), guarded_.end(), true));
  guarded_layers_ = info_.qk_norm ? 0 : layers;
  any_switched_ = true;
  disturbed_step_ = step_;
  samples_since_disturbance_ = 0;
}

void RunContext::SetStirs(const std::vector<bool>& layers) {
  stirs_ = layers;
  any_stirs_ = std::find(stirs_.begin(), stirs_.end(), true) != stirs_.end();
}

void RunContext::TrackLogits(const StepView& step) {
  const HeadValues& logits = step.Heads(kLogitMax);
  if (!logits.any) return;
  logits_.PushAll(logits);
  if (logit_bound_ == 0) return;
  for (size_t layer = 0; layer < step.layers(); ++layer) {
    bool known = false, within = true;
    for (size_t head = layer * step.heads(); head < (layer + 1) * step.heads(); ++head) {
      const double recent = logits_.Level(head);
      if (std::isnan(recent)) continue;
      known = true;
      within = within && recent <= kBoundSlack * logit_bound_;
    }
    bounded_[layer] = known && within;
  }
}

}  // namespace foreshock::detect
