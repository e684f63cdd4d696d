#include "switch_step.h"

#include <algorithm>
#include <cmath>

namespace foreshock::control {
namespace {

// Steps a rank takes in kSwitchSeconds; 0 where its pace is not known yet.
double StepsAhead(const store::SourceInfo& source) {
  if (!source.first_step || !source.last_step) return 0;
  const double seconds = static_cast<double>(source.last_unix_ns - source.first_unix_ns) * 1e-9;
  const auto steps = static_cast<double>(*source.last_step - *source.first_step);
  return seconds > 0 ? std::ceil(steps / seconds * kSwitchSeconds) : 0;
}

}  // namespace

int64_t SwitchStep(const store::AttemptInfo& attempt, int64_t asked) {
  if (attempt.world_size < 2) return asked;
  int64_t last = 0;
  double ahead = kSwitchSteps;
  for (const store::SourceInfo& source : attempt.sources) {
    last = std::max(last, source.last_step.value_or(0));
    ahead = std::max(ahead, StepsAhead(source));
  }
  constexpr double kMost = 1e9;  // a clock that stood still
  return std::max(asked, last + static_cast<int64_t>(std::min(ahead, kMost)));
}

}  // namespace foreshock::control
