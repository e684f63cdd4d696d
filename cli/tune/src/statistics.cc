#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace foreshock::cli {
namespace {

// Chance of `hits` or fewer of `trials` at rate p, summed in logarithms.
double AtMost(int64_t hits, int64_t trials, double p) {
  double sum = 0;
  for (int64_t k = 0; k <= hits; ++k) {
    const auto n = static_cast<double>(trials), x = static_cast<double>(k);
    const double choose = std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1);
    sum += std::exp(choose + x * std::log(p) + (n - x) * std::log1p(-p));
  }
  return sum;
}

}  // namespace

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

std::optional<Interval> BootstrapMedian(const std::vector<double>& values, int64_t resamples, uint64_t seed) {
  if (values.size() < 2 || resamples < 40) return std::nullopt;
  std::mt19937_64 random(seed);
  std::vector<double> medians, sample(values.size());
  for (int64_t i = 0; i < resamples; ++i) {
    // The modulus is off by less than 1e-15 of even, and the same with every standard library.
    for (double& value : sample) value = values[random() % values.size()];
    medians.push_back(*Median(sample));
  }
  std::sort(medians.begin(), medians.end());
  const auto at = [&](double share) {
    return medians[static_cast<size_t>(std::lround(share * static_cast<double>(medians.size() - 1)))];
  };
  return Interval{at(0.025), at(0.975)};
}

double UpperBound(int64_t hits, int64_t trials) {
  constexpr double kChance = 0.05;
  if (hits >= trials) return 1;
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (AtMost(hits, trials, middle) > kChance ? low : high) = middle;
  }
  return high;
}

}  // namespace foreshock::cli
