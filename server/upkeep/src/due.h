// Which runs are to be deleted. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/server/store/types.h"

namespace foreshock::upkeep {

struct KeepRules {
  int64_t keep_ns = 0;  // 0: for ever
  int64_t quiet_ns = 0;
  int64_t silent_after_ns = 0;
};

// Whether a run may go at all: not going on, quiet for long enough, and without the label `keep`.
bool MayGo(const store::RunInfo& run, const KeepRules& rules, int64_t now_unix_ns,
           const store::Listening& listening);

// Those whose time is over.
std::vector<std::string> TooOld(const std::vector<store::RunInfo>& runs, const KeepRules& rules,
                                int64_t now_unix_ns, const store::Listening& listening);

// Of those that may go the one that was heard last the longest ago.
std::optional<std::string> Quietest(const std::vector<store::RunInfo>& runs, const KeepRules& rules,
                                    int64_t now_unix_ns, const store::Listening& listening);

}  // namespace foreshock::upkeep
