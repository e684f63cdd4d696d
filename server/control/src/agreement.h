// Does an action that all ranks must take at one step have them all? Pure functions over what is durable, so
// that a restart comes to the same answer.
//
//   proposed -> committed    every rank has acknowledged it; its step is fixed, and it stands
//            -> withdrawn    one rank refused, ended, or did not acknowledge in time; no rank was told to do
//            it
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "foreshock/server/store/types.h"
#include "foreshock/v1/control.pb.h"

namespace foreshock::control {

// True for kinds that replicas must do together: models that differ part in silence.
bool IsSwitch(const std::string& kind);

// A rank whose newest process knows no proposals: "rank 1 (SDK 0.4.0)"; "" where all that have connected do.
std::string RankWithoutProposals(const store::AttemptInfo& attempt);

enum class Verdict : uint8_t { kWait, kCommit, kWithdraw };
struct Agreement {
  Verdict verdict = Verdict::kWait;
  std::vector<uint32_t> missing;  // ranks whose newest process has not acknowledged, rising; at most 1,000
  std::string why;                // kWithdraw: for people
};

// Every rank of 0 .. world_size - 1 must have acknowledged by its newest process: what an earlier one
// promised died with it. Answers of other actions and of ranks beyond the world are not looked at. `overdue`:
// the time to answer is over.
Agreement Judge(const std::string& action_id, const store::AttemptInfo& attempt,
                const std::vector<store::StoredEvent>& events, bool overdue);

// Every rank that has connected has taken or refused it, or let it expire: nobody needs to be told again.
bool IsSettled(const std::string& action_id, const store::AttemptInfo& attempt,
               const std::vector<store::StoredEvent>& events);

// What of a committed action did not go as agreed: ranks that switched late, or refused after all; "" if
// nothing.
std::string Deviations(const v1::Action& action, const std::vector<store::StoredEvent>& events);

// Judges a proposal and follows a commit: sets state, detail, step and waits_for_ranks of a record in two
// phases whose other events are in it already (progress.h). `switch_step`: what SwitchStep gives now. True:
// it waits on.
bool Conclude(const store::AttemptInfo& attempt, const std::vector<store::StoredEvent>& events, bool overdue,
              int64_t switch_step, v1::ActionRecord* record);

// "rank 3", "ranks 1 and 2", "ranks 0, 1 and 7 more"; `ranks` is not empty.
std::string Ranks(const std::vector<uint32_t>& ranks);

}  // namespace foreshock::control
