#include "foreshock/cli/loss_outcome.h"

#include <algorithm>
#include <cmath>

namespace foreshock::cli {
namespace {

constexpr double kSampleWeight = 0.1;
constexpr double kLearnedBy = 1.0;
constexpr double kCollapsedBy = 0.5;

}  // namespace

void LossOutcome::Add(int64_t step, double loss) {
  last_step_ = step;
  if (std::isfinite(loss)) {
    if (!first_) first_ = smoothed_ = minimum_ = loss;
    *smoothed_ += kSampleWeight * (loss - *smoothed_);
    *minimum_ = std::min(*minimum_, *smoothed_);
  }
  if (!learned() || !Above(loss)) {
    above_since_.reset();
  } else if (!above_since_) {
    above_since_ = step;
  }
}

bool LossOutcome::learned() const { return first_ && *minimum_ <= *first_ - kLearnedBy; }

bool LossOutcome::Above(double loss) const {
  return !std::isfinite(loss) || *smoothed_ > *minimum_ + kCollapsedBy;
}

}  // namespace foreshock::cli
