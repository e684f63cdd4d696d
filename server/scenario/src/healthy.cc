#include "foreshock/server/scenario/healthy.h"

#include <cmath>

#include "foreshock/base/catalogue.h"

namespace foreshock::scenario {
namespace {

constexpr uint16_t kScalars[] = {kLoss, kGradNorm};
constexpr uint16_t kHeadSignals[] = {kWqSigma1,
                                     kWkSigma1,
                                     kQkSigma1,
                                     kLogitMax,
                                     kTiedRowFraction,
                                     kTiedRowFractionBf16,
                                     kSaturatedRowFraction,
                                     kEntropyMean,
                                     kUpdateProjection1,
                                     kUpdateNorm,
                                     kOutputRoundingBias,
                                     kDeltaError};

// `x` and `y` are noise in [-1, 1].
std::optional<double> OfHead(uint16_t signal, double t, double head, double x, double y) {
  const double growth = std::pow(1 + t / 300, 0.35) * (1 + 0.04 * head);
  switch (signal) {
    case kWqSigma1:
      return 0.45 * growth * (1 + 0.01 * x);
    case kWkSigma1:
      return 0.45 * growth * (1 + 0.01 * y);
    case kQkSigma1:
      return 0.18 * growth * growth * (1 + 0.02 * x);
    case kLogitMax:
      return 1 + 11 * growth * (1 + 0.1 * x);
    case kTiedRowFraction:
      return 0.03 + 0.01 * x;
    case kTiedRowFractionBf16:
      return 0.035 + 0.01 * x;
    case kSaturatedRowFraction:
      return 0.01 + 0.005 * y;
    case kEntropyMean:
      return 3 + 0.2 * x;
    case kUpdateProjection1:
      return 0.02 * (0.02 + 0.1 * x);
    case kUpdateNorm:
      return 0.02 * (1 + 0.05 * y);
    case kOutputRoundingBias:
      return 0.008 * (x + y);
    case kDeltaError:
      return 2e-5 * (x + y);
    default:
      return std::nullopt;
  }
}

}  // namespace

double Noise(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xBF58476D1CE4E5B9u + c * 0x94D049BB133111EBu + 1;
  for (int i = 0; i < 3; ++i) {
    x ^= x >> 31;
    x *= 0xD6E8FEB86659FD93u;
  }
  return static_cast<double>(x >> 11) / static_cast<double>(uint64_t{1} << 52) - 1;
}

std::optional<double> HealthyValue(uint16_t signal, int64_t step, uint32_t head) {
  const auto t = static_cast<double>(step);
  const auto at = static_cast<uint64_t>(step);
  if (signal == kLoss) return 1.2 + 4.3 * std::exp(-t / 250) + 0.08 * Noise(signal, at);
  if (signal == kGradNorm) return 0.9 * (1 + 0.2 * Noise(signal, at));
  return OfHead(signal, t, head, Noise(signal, head, at), Noise(signal + 1000u, head, at));
}

std::span<const uint16_t> HealthyScalars() { return kScalars; }
std::span<const uint16_t> HealthyHeadSignals() { return kHeadSignals; }

}  // namespace foreshock::scenario
