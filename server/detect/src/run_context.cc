#include "run_context.h"

#include <algorithm>
#include <limits>

namespace foreshock::detect {

RunContext::RunContext(const RunInfo& info, const DetectorOptions& options)
    : info_(info),
      options_(options),
      disturbed_step_(-(int64_t{1} << 60)),
      switched_(info.layers),
      guarded_(info.layers, info.qk_norm) {}

void RunContext::Advance(const StepView& step) {
  step_ = step.step();
  std::fill(switched_.begin(), switched_.end(), false);
  any_switched_ = false;
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
        break;
      case StepEvent::Kind::kFinished:
      case StepEvent::Kind::kFailed:
        ended_ = true;
        break;
      default:
        break;
    }
  }
}

void RunContext::SetGuard(int32_t layer, bool on) {
  for (size_t l = 0; l < guarded_.size(); ++l) {
    if (layer >= 0 && l != static_cast<size_t>(layer)) continue;
    if (guarded_[l] != on) switched_[l] = true;
    guarded_[l] = on;
  }
  any_switched_ = true;
  disturbed_step_ = step_;
  samples_since_disturbance_ = 0;
}

}  // namespace foreshock::detect
