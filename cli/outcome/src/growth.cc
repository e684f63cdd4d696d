#include "foreshock/cli/growth.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::cli {
namespace {

const HeadSample* Find(const std::vector<HeadSample>& heads, const HeadSample& wanted) {
  const auto at = std::find_if(heads.begin(), heads.end(), [&](const HeadSample& h) {
    return h.layer == wanted.layer && h.head == wanted.head;
  });
  return at == heads.end() ? nullptr : &*at;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<HeadGrowth> GrowthTracker::Add(std::span<const HeadSample> heads) {
  for (const HeadSample& head : heads) {
    if (!std::isfinite(head.value)) {
      return HeadGrowth{head.layer, head.head, head.value, std::numeric_limits<double>::infinity()};
    }
  }
  std::vector<HeadGrowth> grown;
  if (!history_.empty()) {
    for (const HeadSample& head : heads) {
      const HeadSample* before = Find(history_.front(), head);
      if (before == nullptr || !(before->value > 0) || !(head.value > 0)) continue;
      grown.push_back({head.layer, head.head, head.value, head.value / before->value});
    }
  }
  history_.emplace_back(heads.begin(), heads.end());
  if (history_.size() > samples_back_) history_.erase(history_.begin());
  if (grown.empty()) return std::nullopt;

  std::vector<double> factors;
  for (const HeadGrowth& g : grown) factors.push_back(g.factor);
  const double median = Median(factors);
  HeadGrowth top = *std::max_element(grown.begin(), grown.end(),
                                     [](const auto& a, const auto& b) { return a.factor < b.factor; });
  top.factor /= median;
  return top;
}

}  // namespace foreshock::cli
