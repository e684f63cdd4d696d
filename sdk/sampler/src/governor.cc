#include "foreshock/sdk/governor.h"

#include <algorithm>

namespace foreshock::sdk {
namespace {

void Average(double value, double weight, double* average) {
  *average = *average < 0 ? value : *average + weight * (value - *average);
}

constexpr double kMostDearer = 1000;

// A counted step reads the projections at both ends, unless the step before was counted too.
double ReadingsOfStep(uint32_t factor) { return factor > 1 ? 2 : 1; }

}  // namespace

Governor::Governor(double budget, uint32_t interval, uint32_t warm_up)
    : budget_(budget), interval_(std::max(interval, 1u)), warm_up_(warm_up) {}

double Governor::SampleShare(uint32_t factor) const noexcept {
  if (step_ <= 0) return 0;
  return dearer_ * std::max(sample_, 0.0) / (static_cast<double>(interval_) * factor) / step_;
}

double Governor::ProjectionShare(uint32_t factor) const noexcept {
  if (step_ <= 0) return 0;
  return dearer_ * std::max(projection_, 0.0) * ReadingsOfStep(factor) / factor / step_;
}

double Governor::share() const noexcept {
  return SampleShare(samples_.factor) + ProjectionShare(projections_.factor);
}

void Governor::Measured(double device_share) noexcept {
  const double known = share() / dearer_;
  if (!(device_share >= 0 && device_share <= 1) || known <= 0) return;
  Average(std::clamp(device_share / known, 1.0, kMostDearer), 0.3, &dearer_);
}

template <typename ShareFn>
void Governor::Adjust(Stretch* stretch, double allowed, ShareFn share) noexcept {
  if (share(stretch->factor) > allowed) {
    stretch->calm = 0;
    while (stretch->factor < kMaxFactor && share(stretch->factor) > allowed) stretch->factor *= 2;
    return;
  }
  const bool roomy = stretch->factor > 1 && share(stretch->factor / 2) < 0.5 * allowed;
  stretch->calm = roomy ? stretch->calm + 1 : 0;
  if (stretch->calm < 8) return;
  stretch->factor /= 2;
  stretch->calm = 0;
}

void Governor::EndStep(bool sampled, bool tracked, int64_t total_nanos, int64_t own_nanos) noexcept {
  const double own = static_cast<double>(std::max<int64_t>(own_nanos, 0));
  if (sampled && warm_up_ > 0) {
    --warm_up_;
    return;
  }
  Average(std::max(static_cast<double>(total_nanos) - own, 0.0), 0.05, &step_);
  const double readings = ReadingsOfStep(projections_.factor);
  if (!sampled) {
    if (tracked) Average(own / readings, 0.05, &projection_);
    return;
  }
  Average(std::max(own - (tracked ? std::max(projection_, 0.0) * readings : 0), 0.0), 0.3, &sample_);
  if (budget_ >= 1) return;
  Adjust(&projections_, budget_ / 2, [this](uint32_t factor) { return ProjectionShare(factor); });
  Adjust(&samples_, std::max(budget_ - ProjectionShare(projections_.factor), budget_ / 2),
         [this](uint32_t factor) { return SampleShare(factor); });
}

}  // namespace foreshock::sdk
