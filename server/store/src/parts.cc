#include "foreshock/server/store/parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace foreshock::store {

wire::Frame JoinParts(std::vector<wire::Frame> parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.part < b.part; });
  // Of an archive, for instance, whose server had sealed it: it says all that its parts say.
  const auto complete = std::find_if(parts.begin(), parts.end(), [](const auto& p) { return p.parts <= 1; });
  if (complete != parts.end()) return std::move(*complete);
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

size_t MemoryOf(const wire::Frame& frame) {
  constexpr size_t kAllocation = 16;  // what an allocation costs beside its bytes, roughly
  size_t bytes = sizeof frame;
  for (const wire::Series& s : frame.series) {
    bytes += sizeof s + 3 * kAllocation + s.present.size() + s.rotated.size() +
             4 * (s.heads.size() + s.values.size() + s.weights.size() + s.moments.size() +
                  2 * s.direction_hash.size() + s.step_offsets.size());
  }
  return bytes;
}

}  // namespace foreshock::store
