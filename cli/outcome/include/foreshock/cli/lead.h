// How early was the critical alert? Pure arithmetic over the times at which alerts fired and resolved.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace foreshock::cli {

// Steps at which one critical alert fired and resolved.
struct FiringSpan {
  static constexpr int64_t kStillFiring = std::numeric_limits<int64_t>::max();
  int64_t fired = 0;
  int64_t resolved = kStillFiring;
};

// First step of the stretch, without a gap, in which at least one of the alerts fires and which lasts until
// `until` (exclusive: what resolves at `until` still counts). Touching spans are one stretch: an alert that
// resolves in the step in which another fires hands over. nullopt when none fires just before `until`: an
// alert that came and went warned of nothing.
std::optional<int64_t> LastingSince(std::span<const FiringSpan> spans, int64_t until);

}  // namespace foreshock::cli
