#include "partial.h"

#include <cmath>
#include <limits>
#include <map>

namespace foreshock::merge {
namespace {

double Sign(double x) {
  if (std::isnan(x)) return x;
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}

// Distance from `id` to the first signal of its group of three, added to another group.
uint16_t Shifted(uint16_t projection, uint16_t for_q, uint16_t for_k) {
  if (projection >= kUpdateProjection1 && projection <= kUpdateProjection3) {
    return static_cast<uint16_t>(for_q + projection - kUpdateProjection1);
  }
  if (projection >= kWkUpdateProjection1 && projection <= kWkUpdateProjection3) {
    return static_cast<uint16_t>(for_k + projection - kWkUpdateProjection1);
  }
  return 0;
}

}  // namespace

std::vector<Entry> WholeOf(const std::vector<Entry>& entries, bool all_there) {
  if (entries.empty()) return {};
  const uint32_t shards = entries.front().series->shards;
  if (shards == 0) return all_there ? entries : std::vector<Entry>();
  std::map<uint32_t, Entry> by_shard;
  for (const Entry& entry : entries) {
    if (entry.series->shards != shards) return {};
    by_shard.try_emplace(entry.series->shard, entry);
  }
  if (by_shard.size() != shards) return {};
  std::vector<Entry> whole;
  for (const auto& [shard, entry] : by_shard) whole.push_back(entry);
  return whole;
}

std::optional<std::vector<double>> SumShards(const std::vector<Entry>& entries) {
  const wire::Series& first = *entries.front().series;
  std::vector<double> sums(first.values_per_head, 0.0);
  for (const Entry& entry : entries) {
    const wire::Series& series = *entry.series;
    if (series.values_per_head != first.values_per_head) return std::nullopt;
    if (series.step_offsets != first.step_offsets) return std::nullopt;
    if (series.direction_hash.empty() != first.direction_hash.empty()) return std::nullopt;
    if (!first.direction_hash.empty() &&
        series.direction_hash[entry.index] != first.direction_hash[entries.front().index]) {
      return std::nullopt;
    }
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += series.values[entry.index * sums.size() + i];
  }
  return sums;
}

Window Summarise(const std::vector<double>& steps) {
  double sum = 0, signs = 0, sizes = 0;
  for (const double c : steps) {
    sum += c;
    signs += Sign(c);
    sizes += std::fabs(c);
  }
  const auto n = static_cast<float>(steps.size());
  Window window;
  window.projection = {static_cast<float>(sum), n, std::nullopt};
  if (sizes != 0) window.sign_mean = {static_cast<float>(signs), n, std::nullopt};  // NaN != 0
  window.drift_ratio = {static_cast<float>(sum), static_cast<float>(sizes), std::nullopt};
  return window;
}

uint16_t SignMeanOf(uint16_t projection) { return Shifted(projection, kUpdateSignMean1, kWkUpdateSignMean1); }
uint16_t DriftRatioOf(uint16_t projection) {
  return Shifted(projection, kUpdateDriftRatio1, kWkUpdateDriftRatio1);
}

}  // namespace foreshock::merge
