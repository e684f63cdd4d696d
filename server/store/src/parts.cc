#include "foreshock/server/store/parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace foreshock::store {

wire::Frame JoinParts(std::vector<wire::Frame> parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.part < b.part; });
  wire::Frame whole = std::move(parts.front());
  const uint32_t expected = std::max(whole.parts, 1u);
  uint32_t found = 1;
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].part == parts[i - 1].part) continue;  // repeated
    ++found;
    std::move(parts[i].series.begin(), parts[i].series.end(), std::back_inserter(whole.series));
  }
  whole.part = 0;
  if (found >= expected) whole.parts = 1;
  return whole;
}

}  // namespace foreshock::store
