// When the ranks of a run switch together.
#pragma once

#include <cstdint>

#include "foreshock/server/store/types.h"

namespace foreshock::control {

// Time that an action may need to every rank, and the least number of steps whatever they take.
inline constexpr double kSwitchSeconds = 10;
inline constexpr int64_t kSwitchSteps = 20;

// The step at which every rank of the attempt can switch: the furthest rank's last one, and as many more as
// it takes in kSwitchSeconds, and in the time that its records are behind (a spool that drains, a server that
// was away), at the pace that it has had so far; `asked` where that is later. With one rank: `asked`.
int64_t SwitchStep(const store::AttemptInfo& attempt, int64_t asked, int64_t now_unix_ns);

}  // namespace foreshock::control
