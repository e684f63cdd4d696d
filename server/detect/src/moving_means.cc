#include "moving_means.h"

#include <algorithm>
#include <cmath>

#include "foreshock/base/catalogue.h"

namespace foreshock::detect {

void MovingMeans::Push(size_t head, double value) {
  if (!std::isfinite(value)) return;
  ring_[head * kSamples + count_[head] % kSamples] = static_cast<float>(value);
  ++count_[head];
}

double MovingMeans::Sum(size_t head) const {
  double sum = 0;
  for (size_t i = 0; i < std::min<size_t>(count_[head], kSamples); ++i) sum += ring_[head * kSamples + i];
  return sum;
}

double StepsBehind(const HeadValues& values, size_t head) {
  const double n = values.weight[head];
  return std::isfinite(n) ? std::max(n, 1.0) : 1.0;
}

void PushShares(const StepView& step, MovingMeans* shares) {
  const HeadValues& projection = step.Heads(kUpdateProjection1);
  const HeadValues& norm = step.Heads(kUpdateNorm);
  if (!projection.any || !norm.any) return;
  for (size_t head = 0; head < step.all_heads(); ++head) {
    if (!projection.Finite(head) || !norm.Finite(head) || !(norm.value[head] > 0)) continue;
    shares->Push(head, projection.value[head] / StepsBehind(projection, head) / norm.value[head]);
  }
}

}  // namespace foreshock::detect
