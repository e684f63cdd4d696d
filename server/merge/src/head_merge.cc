#include "head_merge.h"

#include <cmath>

namespace foreshock::merge {
namespace {

const Entry& LowestOrNan(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (std::isnan(entry.value())) return entry;
  }
  return entries.front();
}

std::optional<float> SumOfWeights(const std::vector<Entry>& entries) {
  double sum = 0;
  for (const Entry& entry : entries) {
    if (!entry.weight()) return std::nullopt;
    sum += *entry.weight();
  }
  return static_cast<float>(sum);
}

// Without the moments of every rank no standard error can be given.
std::optional<std::vector<float>> SumOfMoments(const std::vector<Entry>& entries) {
  std::vector<double> sums(wire::kMomentsPerHead, 0.0);
  for (const Entry& entry : entries) {
    if (entry.series->moments.empty()) return std::nullopt;
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += entry.series->moments[entry.index * wire::kMomentsPerHead + i];
    }
  }
  return std::vector<float>(sums.begin(), sums.end());
}

float SumOfValues(const std::vector<Entry>& entries) {
  double sum = 0;
  for (const Entry& entry : entries) sum += entry.value();
  return static_cast<float>(sum);
}

MergedHead WeightedMean(const std::vector<Entry>& entries) {
  double sum = 0, weights = 0;
  for (const Entry& entry : entries) {
    const double weight = entry.weight().value_or(1.0f);
    if (weight == 0) continue;
    sum += weight * entry.value();
    weights += weight;
  }
  MergedHead merged;
  merged.value = weights == 0 ? LowestOrNan(entries).value() : static_cast<float>(sum / weights);
  merged.weight = SumOfWeights(entries);
  return merged;
}

MergedHead AsItIs(const Entry& entry) {
  MergedHead merged{entry.value(), entry.weight(), std::nullopt};
  if (!entry.series->moments.empty()) {
    const auto first =
        entry.series->moments.begin() + static_cast<ptrdiff_t>(entry.index * wire::kMomentsPerHead);
    merged.moments.emplace(first, first + static_cast<ptrdiff_t>(wire::kMomentsPerHead));
  }
  return merged;
}

}  // namespace

const Entry& ExtremeEntry(const std::vector<Entry>& entries, bool largest) {
  const Entry* best = &entries.front();
  for (const Entry& entry : entries) {
    if (std::isnan(best->value())) break;
    const bool better = largest ? entry.value() > best->value() : entry.value() < best->value();
    if (better || std::isnan(entry.value())) best = &entry;
  }
  return *best;
}

MergedHead MergeHead(const SignalInfo& info, const std::vector<Entry>& entries) {
  if (entries.size() == 1) return AsItIs(entries.front());
  switch (info.merge) {
    case SignalMerge::kMax:
    case SignalMerge::kMin:
      return {ExtremeEntry(entries, info.merge == SignalMerge::kMax).value(), SumOfWeights(entries),
              std::nullopt};
    case SignalMerge::kRatio:
      return {SumOfValues(entries), SumOfWeights(entries), SumOfMoments(entries)};
    case SignalMerge::kSum:
      if (info.scope != SignalScope::kScalar) break;
      return {SumOfValues(entries), entries.front().weight(), std::nullopt};
    case SignalMerge::kWeightedMean:
      return WeightedMean(entries);
    case SignalMerge::kReplicated:
      break;
  }
  return AsItIs(LowestOrNan(entries));
}

}  // namespace foreshock::merge
