#include "foreshock/server/export/head_stats.h"

#include <algorithm>
#include <cmath>

namespace foreshock::exporter {
namespace {

// Signals whose small values are the bad ones: attention that narrows, a spectrum that one direction rules.
bool SmallIsBad(uint16_t signal) {
  switch (signal) {
    case kLogitMin:
    case kEntropyMean:
    case kWqStableRank:
    case kWkStableRank:
    case kQkUpdateEntropy:
    case kQkUpdateParticipation:
      return true;
    default:
      return false;
  }
}

// Bias, drift and projections are bad in both directions.
bool SizeIsBad(const SignalInfo& info) {
  return (info.id >= kUpdateProjection1 && info.id <= kWkUpdateDriftRatio3) ||
         (info.id >= kOutputRoundingBias && info.id <= kDeltaErrorSignMean);
}

double Badness(const SignalInfo& info, double value) {
  if (SmallIsBad(info.id)) return -value;
  return SizeIsBad(info) ? std::abs(value) : value;
}

double Median(std::vector<double> values) {
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

std::optional<HeadStats> StatsOf(const SignalInfo& info, const wire::Series& series) {
  if (series.values_per_head != 1 || series.values.size() != series.count()) return std::nullopt;
  HeadStats stats;
  std::vector<double> numbers;
  std::optional<uint32_t> nan_head;
  for (size_t i = 0; i < series.heads.size(); ++i) {
    if (!series.has(i)) continue;
    const auto value = DisplayValue(info, series.values[i], series.weight(i));
    if (!value) continue;
    stats.heads.emplace_back(series.heads[i], *value);
    if (std::isnan(*value)) {
      if (!nan_head) nan_head = series.heads[i];
    } else {
      numbers.push_back(*value);
    }
  }
  if (stats.heads.empty()) return std::nullopt;
  stats.median = Median(numbers);
  if (nan_head) {
    stats.max = stats.min = std::nan("");
    stats.worst_head = *nan_head;
    return stats;
  }
  stats.max = *std::max_element(numbers.begin(), numbers.end());
  stats.min = *std::min_element(numbers.begin(), numbers.end());
  const auto worst = std::max_element(
      stats.heads.begin(), stats.heads.end(),
      [&](const auto& a, const auto& b) { return Badness(info, a.second) < Badness(info, b.second); });
  stats.worst_head = worst->first;
  return stats;
}

std::optional<double> ScalarOf(const SignalInfo& info, const wire::Series& series) {
  if (!series.has(0) || series.values.empty()) return std::nullopt;
  return DisplayValue(info, series.values[0], series.weight(0));
}

}  // namespace foreshock::exporter
