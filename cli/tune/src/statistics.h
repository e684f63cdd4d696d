// Medians, intervals and bounds. Private; pure, chance comes with a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace foreshock::cli {

// Of even counts the mean of the middle two; nothing for no value.
std::optional<double> Median(std::vector<double> values);

struct Interval {
  double low = 0, high = 0;
};
// The 95 % percentile bootstrap interval of the median over `values` (one a run); nothing for fewer than two.
std::optional<Interval> BootstrapMedian(const std::vector<double>& values, int64_t resamples, uint64_t seed);

// The largest rate p at which `hits` or fewer of `trials` happen with 5 % chance: the upper 95 % bound of the
// rate (Clopper and Pearson, one-sided). 1 for no trial.
double UpperBound(int64_t hits, int64_t trials);

}  // namespace foreshock::cli
