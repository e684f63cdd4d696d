#include "switch_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::control {
namespace {

// Times and steps are what senders and archives say: their differences need not fit into 64 bits.
double Difference(int64_t a, int64_t b) {
  int64_t exact = 0;
  if (__builtin_sub_overflow(a, b, &exact)) return static_cast<double>(a) - static_cast<double>(b);
  return static_cast<double>(exact);
}

// How old the youngest record of a source is, by its own clock; clocks that are wrong make it no older than
// kMostBehindSeconds.
double SecondsBehind(const store::SourceInfo& source, int64_t now_unix_ns) {
  constexpr double kMostBehindSeconds = 120;
  if (source.last_sent_unix_ns == 0) return 0;
  const double behind =
      Difference(now_unix_ns, source.last_sent_unix_ns) + static_cast<double>(source.clock_skew_ns);
  return std::clamp(behind * 1e-9, 0.0, kMostBehindSeconds);
}

// Steps a rank takes in kSwitchSeconds and while it is behind; 0 where its pace is not known yet.
double StepsAhead(const store::SourceInfo& source, int64_t now_unix_ns) {
  if (!source.first_step || !source.last_step) return 0;
  const double seconds = Difference(source.last_unix_ns, source.first_unix_ns) * 1e-9;
  const double ahead = kSwitchSeconds + SecondsBehind(source, now_unix_ns);
  const double steps = Difference(*source.last_step, *source.first_step);
  return seconds > 0 ? std::ceil(steps / seconds * ahead) : 0;
}

}  // namespace

int64_t SwitchStep(const store::AttemptInfo& attempt, int64_t asked, int64_t now_unix_ns) {
  if (attempt.world_size < 2) return asked;
  int64_t last = 0;
  double ahead = kSwitchSteps;
  for (const store::SourceInfo& source : attempt.sources) {
    last = std::max(last, source.last_step.value_or(0));
    ahead = std::max(ahead, StepsAhead(source, now_unix_ns));
  }
  constexpr double kMost = 1e9;  // a clock that stood still
  const auto steps = static_cast<int64_t>(std::min(ahead, kMost));
  return std::max(asked, last > std::numeric_limits<int64_t>::max() - steps ? last : last + steps);
}

}  // namespace foreshock::control
