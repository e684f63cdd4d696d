#include "foreshock/trainer/outcome.h"

#include <algorithm>
#include <cmath>

namespace foreshock::trainer {

void Outcome::add(std::int64_t step, double loss) {
  constexpr double kWeight = 0.1;
  constexpr double kLearned = 1.0;
  constexpr double kAbove = 0.5;
  if (!started_) {
    started_ = true;
    first_ = smoothed_ = minimum_ = loss;
    return;
  }
  const bool finite = std::isfinite(loss);
  if (finite) smoothed_ += kWeight * (loss - smoothed_);
  minimum_ = std::min(minimum_, smoothed_);
  const bool learned = minimum_ <= first_ - kLearned;
  if (!learned || (finite && smoothed_ <= minimum_ + kAbove)) {
    above_since_.reset();
  } else if (!above_since_) {
    above_since_ = step;
  }
}

}  // namespace foreshock::trainer
