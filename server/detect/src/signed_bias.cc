#include "signed_bias.h"

#include <algorithm>
#include <cmath>

namespace foreshock::detect {
namespace {

// The median of n normal values has 1.2533 times the standard error of their mean.
constexpr double kMedianLoss = 1.2533;
// Of the level, in standard deviations of a sample.
const double kLevelError = kMedianLoss / std::sqrt(static_cast<double>(SignedBias::kLevelSamples));
// Median |difference| of two normal values is 0.6745 * sqrt(2) standard deviations.
constexpr double kDifferenceToSigma = 1.0484;
constexpr size_t kNewestSteps = 2;

}  // namespace

SignedBias::SignedBias(size_t heads)
    : level_(heads, 0, kLevelSamples),
      recent_(heads, kScatterSamples, 0),
      past_(heads, kBaselineSamples, kScatterSamples),
      errors_(heads, 0, kLevelSamples),
      steps_(heads, 0, kScatterSamples),
      last_(heads, std::nan("")),
      usual_(heads),
      states_(heads),
      sigma_(heads) {}

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
  const double everywhere = NewestScatter();
  for (size_t head = 0; head < states_.size(); ++head) {
    if (values.Finite(head) && !states_[head].steady) JudgeSteady(head, everywhere);
  }
}

double SignedBias::NewestScatter() {
  scratch_.clear();
  for (size_t head = 0; head < states_.size(); ++head) {
    if (usual_[head].count < kMinBaseline || !(usual_[head].scale > 0)) continue;
    const double newest = steps_.Level(head, kNewestSteps);
    if (!std::isnan(newest)) scratch_.push_back(kDifferenceToSigma * newest / usual_[head].scale);
  }
  return scratch_.size() >= kMinHeads ? MedianInPlace(scratch_) : 1;
}

double SignedBias::middle_scatter() const {
  scratch_.clear();
  for (const State& state : states_) {
    if (state.scatter > 0) scratch_.push_back(state.scatter);
  }
  return scratch_.size() >= kMinHeads ? MedianInPlace(scratch_) : 1;
}

void SignedBias::JudgeSteady(size_t head, double everywhere) {
  State& state = states_[head];
  if (state.significance < kSignificance) return;
  const double own = kDifferenceToSigma * steps_.Largest(head, kNewestSteps);
  if (std::isnan(own)) return;
  const double usual = usual_[head].count >= kMinBaseline ? usual_[head].scale : 0;
  const double error = kLevelError * std::max({sigma_[head], own, everywhere * usual});
  state.steady = std::abs(state.level) >= kSignificance * error;
}

void SignedBias::Restart() {
  for (size_t head = 0; head < states_.size(); ++head) {
    past_.Clear(head);
    usual_[head] = Baseline();
  }
}

void SignedBias::Judge(size_t head) {
  State& state = states_[head];
  state.level = level_.Level(head);
  state.significance = state.scatter = sigma_[head] = 0;
  const Baseline recent = recent_.Get(head);
  const Baseline& past = usual_[head];
  // The error that the probe states, or, without one, the larger of the scatters seen.
  double error = errors_.Level(head);
  if (std::isnan(error)) {
    if (recent.count < kScatterSamples) return;
    error = past.count >= kMinBaseline ? std::max(past.scale, recent.scale) : recent.scale;
  }
  sigma_[head] = error;
  error *= kLevelError;
  state.significance = error > 0 ? std::abs(state.level) / error : (state.level == 0 ? 0 : 1e9);
  if (past.count >= kMinScatterBaseline && recent.count == kScatterSamples && past.scale > 0) {
    state.scatter = kDifferenceToSigma * steps_.Level(head) / past.scale;
  }
}

void SignedBias::Mark(size_t head, bool marked, int64_t step) {
  if (!marked) {
    states_[head].since = -1;
    states_[head].steady = false;
  } else if (states_[head].since < 0) {
    states_[head].since = step;
  }
}

}  // namespace foreshock::detect
