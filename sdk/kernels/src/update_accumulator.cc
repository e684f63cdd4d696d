#include "foreshock/sdk/update_accumulator.h"

#include <cmath>

namespace foreshock::kernels {
namespace {

// -1, 0, 1, and NaN for NaN.
double Sign(double value) {
  if (std::isnan(value)) return value;
  return static_cast<double>(value > 0) - static_cast<double>(value < 0);
}

}  // namespace

void UpdateAccumulator::Start(const double r[kPairs]) noexcept {
  sums_ = UpdateSums{};
  for (int i = 0; i < kPairs; ++i) {
    r_[i] = r[i];
    last_c_[i] = 0;
  }
  started_ = true;
}

void UpdateAccumulator::Step(const double r[kPairs], double decay) noexcept {
  if (!started_) {
    Start(r);
    return;
  }
  for (int i = 0; i < kPairs; ++i) {
    const double c = (r[i] - r_[i]) + decay * r_[i];
    sums_.sum_c[i] += c;
    sums_.sum_abs_c[i] += std::abs(c);
    sums_.sum_sign[i] += Sign(c);
    if (!(c == 0)) ++sums_.nonzero[i];
    last_c_[i] = c;
    r_[i] = r[i];
  }
  ++sums_.n;
}

void UpdateAccumulator::Skip() noexcept { ++sums_.skipped; }

void UpdateAccumulator::Refresh(const double old_pair[kPairs], double decay, const double new_pair[kPairs],
                                const double* match) noexcept {
  if (!started_) {
    Start(new_pair);
    return;
  }
  Step(old_pair, decay);
  for (int i = 0; i < kPairs; ++i) {
    r_[i] = new_pair[i];
    if (match != nullptr && !(match[i] >= kRotatedBelow)) sums_.rotated[i] = true;
  }
}

void UpdateAccumulator::Invalidate() noexcept {
  sums_ = UpdateSums{};
  started_ = false;
}

UpdateSums UpdateAccumulator::Take() noexcept {
  const UpdateSums sums = sums_;
  sums_ = UpdateSums{};
  return sums;
}

}  // namespace foreshock::kernels
