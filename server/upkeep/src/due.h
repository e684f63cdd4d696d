// Which runs are to be deleted. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "foreshock/server/store/types.h"

namespace foreshock::upkeep {

struct KeepRules {
  int64_t keep_ns = 0;  // 0: for ever
  int64_t quiet_ns = 0;
  int64_t silent_after_ns = 0;
};

struct Now {
  int64_t unix_ns = 0;
  store::Listening listening;
};

// Whether one of the run's attempts is going on (store::StateOf).
bool IsGoingOn(const store::RunInfo& run, int64_t silent_after_ns, const Now& now);

// Whether a run may go by itself: not going on, quiet for long enough, and without the label `keep`.
bool MayGo(const store::RunInfo& run, const KeepRules& rules, const Now& now);

// Those whose time is over. A run that was heard when the clock showed nonsense (before 2020) has no age.
std::vector<store::RunInfo> TooOld(const std::vector<store::RunInfo>& runs, const KeepRules& rules,
                                   const Now& now);

// Of those that may go the one that was heard last the longest ago.
std::optional<store::RunInfo> Quietest(const std::vector<store::RunInfo>& runs, const KeepRules& rules,
                                       const Now& now);

// Whether nothing of the run came between the two: it is the same run, not a later one of that name.
bool SameAs(const store::RunInfo& before, const store::RunInfo& after);

}  // namespace foreshock::upkeep
