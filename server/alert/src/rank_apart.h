// Which rank an alert is about: rules see what is merged over ranks, the store has each rank's own values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "foreshock/server/alert_core/alert.h"
#include "foreshock/server/store/store.h"

namespace foreshock::alert {

struct RankApart {
  uint32_t rank = 0;
  std::string signal;
  double value = 0;  // the rank's own
  double elsewhere =
      0;  // of the other ranks the value that is farthest from the usual; NaN: no other measures this head
};

// The one rank that stands apart in the first signal that the alert rests on, by its values at the step at
// which it fired, or the last ones before. It does when it is four times as far from the usual as every other
// rank, when its value alone is not finite, or when the head's attention is on no other rank (tensor
// parallelism). nullopt where none does: there is one rank or more than kMostRanks, the alert is about no
// signal of a head or of the whole step, replicas share the heads' weights out.
std::optional<RankApart> FindRankApart(const store::Store& store, const Alert& alert);

// Reading a step of each costs some 0.1 ms.
inline constexpr size_t kMostRanks = 512;

// The alert with that rank in its summary and as its last evidence.
void TellRank(const RankApart& apart, Alert* alert);

}  // namespace foreshock::alert
