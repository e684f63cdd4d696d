#include "signed_bias.h"

#include <algorithm>
#include <cmath>

namespace foreshock::detect {
namespace {

// The median of n normal values has 1.2533 times the standard error of their mean.
constexpr double kMedianLoss = 1.2533;
// Median |difference| of two normal values is 0.6745 * sqrt(2) standard deviations.
constexpr double kDifferenceToSigma = 1.0484;

}  // namespace

SignedBias::SignedBias(size_t heads)
    : level_(heads, 0, kLevelSamples),
      recent_(heads, kScatterSamples, 0),
      past_(heads, kBaselineSamples, kScatterSamples),
      errors_(heads, 0, kLevelSamples),
      steps_(heads, 0, kScatterSamples),
      last_(heads, std::nan("")),
      usual_(heads),
      states_(heads) {}

void SignedBias::Push(const HeadValues& values) {
  const bool refresh = pushes_++ % kRefreshSamples == 0;
  for (size_t head = 0; head < states_.size(); ++head) {
    if (!values.Finite(head)) continue;
    level_.Push(head, values.value[head]);
    recent_.Push(head, values.value[head]);
    if (states_[head].since < 0) {
      past_.Push(head, values.value[head]);
      // Now and then is enough: it hardly moves, and it is what costs.
      if (refresh || usual_[head].count < kMinScatterBaseline) usual_[head] = past_.Get(head);
    }
    errors_.Push(head, values.error[head]);
    steps_.Push(head, std::abs(values.value[head] - last_[head]));
    last_[head] = values.value[head];
    Judge(head);
  }
}

void SignedBias::Judge(size_t head) {
  State& state = states_[head];
  state.level = level_.Level(head);
  state.significance = state.scatter = 0;
  const Baseline recent = recent_.Get(head);
  const Baseline& past = usual_[head];
  // The error that the probe states, or, without one, the larger of the scatters seen.
  double error = errors_.Level(head);
  if (std::isnan(error)) {
    if (recent.count < kScatterSamples) return;
    error = past.count >= kMinBaseline ? std::max(past.scale, recent.scale) : recent.scale;
  }
  error *= kMedianLoss / std::sqrt(static_cast<double>(kLevelSamples));
  state.significance = error > 0 ? std::abs(state.level) / error : (state.level == 0 ? 0 : 1e9);
  if (past.count >= kMinScatterBaseline && recent.count == kScatterSamples && past.scale > 0) {
    state.scatter = kDifferenceToSigma * steps_.Level(head) / past.scale;
  }
}

void SignedBias::Mark(size_t head, bool marked, int64_t step) {
  if (!marked) {
    states_[head].since = -1;
  } else if (states_[head].since < 0) {
    states_[head].since = step;
  }
}

}  // namespace foreshock::detect
