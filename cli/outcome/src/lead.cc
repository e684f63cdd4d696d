#include "foreshock/cli/lead.h"

#include <algorithm>
#include <vector>

namespace foreshock::cli {

std::optional<int64_t> LastingSince(std::span<const FiringSpan> spans, int64_t until) {
  std::vector<FiringSpan> sorted(spans.begin(), spans.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.fired < b.fired; });
  std::optional<int64_t> since;
  int64_t covered_to = 0;
  for (const FiringSpan& span : sorted) {
    if (span.fired >= until) break;
    if (!since || span.fired > covered_to) {
      since = span.fired;
      covered_to = span.resolved;
    } else {
      covered_to = std::max(covered_to, span.resolved);
    }
  }
  return since && covered_to >= until ? since : std::nullopt;
}

}  // namespace foreshock::cli
