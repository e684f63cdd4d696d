#include "row.h"

#include <algorithm>

namespace foreshock::merge {

void Row::Add(std::optional<uint32_t> head, const std::optional<MergedHead>& merged, bool rotated) {
  if (head) series_.heads.push_back(*head);
  series_.present.push_back(merged ? 1 : 0);
  series_.rotated.push_back(rotated ? 1 : 0);
  const MergedHead entry = merged.value_or(MergedHead{});
  series_.values.push_back(entry.value);
  series_.weights.push_back(entry.weight.value_or(0));
  const std::vector<float> moments = entry.moments.value_or(std::vector<float>(wire::kMomentsPerHead, 0.0f));
  series_.moments.insert(series_.moments.end(), moments.begin(), moments.end());
  if (!merged) return;
  weighted_ = weighted_ && merged->weight.has_value();
  moments_ = moments_ && merged->moments.has_value();
}

wire::Series Row::Take() {
  const auto none = [](const std::vector<uint8_t>& bits) {
    return std::find(bits.begin(), bits.end(), 1) == bits.end();
  };
  const bool any = !none(series_.present);
  if (!any || !weighted_) series_.weights.clear();
  if (!any || !moments_) series_.moments.clear();
  if (none(series_.rotated)) series_.rotated.clear();
  if (std::find(series_.present.begin(), series_.present.end(), 0) == series_.present.end()) {
    series_.present.clear();
  }
  return std::move(series_);
}

}  // namespace foreshock::merge
