#include "foreshock/sdk/rounding_turns.h"

#include <algorithm>
#include <numeric>

namespace foreshock::sdk {

void RoundingTurns::Next(int64_t steps) noexcept {
  const size_t layers = work_.size();
  if (layers == 0) return;
  first_ = (first_ + count_) % layers;
  count_ = 0;
  const double all = std::accumulate(work_.begin(), work_.end(), 0.0);
  const double of_ten_steps = std::max(kWorkOfTenSteps, all / 20);
  const double part = std::clamp(static_cast<double>(steps) / 10, 0.0, 1.0);
  // No more is kept than two samples earn, but for a layer that needs more.
  earned_ = std::min(earned_ + part * of_ten_steps, std::max(2 * of_ten_steps, work_[first_]));
  for (; count_ < layers; ++count_) {
    const double work = work_[(first_ + count_) % layers];
    if (work > earned_) break;
    earned_ -= work;
  }
}

}  // namespace foreshock::sdk
