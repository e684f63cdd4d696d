#include "agreement.h"

#include <algorithm>
#include <map>

namespace foreshock::control {
namespace {

using store::SourceInfo;
using wire::ActionState;

constexpr size_t kMostMissing = 1000;

std::map<uint32_t, const SourceInfo*> NewestOfRanks(const store::AttemptInfo& attempt) {
  std::map<uint32_t, const SourceInfo*> newest;
  for (const SourceInfo& source : attempt.sources) newest[source.id.rank] = &source;  // by rank, then age
  return newest;
}

bool IsAbout(const store::StoredEvent& stored, const std::string& action_id) {
  return stored.event.kind == wire::EventKind::kAction && stored.event.action_id == action_id;
}

// The last answer of each rank's newest process.
std::map<uint32_t, const wire::Event*> Answers(const std::string& action_id,
                                               const std::map<uint32_t, const SourceInfo*>& newest,
                                               const std::vector<store::StoredEvent>& events) {
  std::map<uint32_t, const wire::Event*> answers;
  for (const store::StoredEvent& stored : events) {
    if (!IsAbout(stored, action_id)) continue;
    const auto source = newest.find(stored.rank);
    if (source == newest.end() || source->second->id.incarnation != stored.incarnation) continue;
    const ActionState state = stored.event.action_state;
    if (state == ActionState::kAcknowledged || state == ActionState::kRefused) {
      answers[stored.rank] = &stored.event;
    }
  }
  return answers;
}

}  // namespace

bool IsSwitch(const std::string& kind) { return kind == "enable_qk_norm"; }

std::string RankWithoutProposals(const store::AttemptInfo& attempt) {
  for (const auto& [rank, source] : NewestOfRanks(attempt)) {
    if (source->hello->action_protocol >= 1) continue;
    const std::string& version = source->hello->sdk_version;
    return "rank " + std::to_string(rank) + (version.empty() ? "" : " (SDK " + version + ")");
  }
  return "";
}

std::string Ranks(const std::vector<uint32_t>& ranks) {
  constexpr size_t kNamed = 8;
  const size_t named = std::min(ranks.size(), kNamed);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (ranks.size() > named) text += " and " + std::to_string(ranks.size() - named) + " more";
  return text;
}

Agreement Judge(const std::string& action_id, const store::AttemptInfo& attempt,
                const std::vector<store::StoredEvent>& events, bool overdue) {
  const auto newest = NewestOfRanks(attempt);
  const auto answers = Answers(action_id, newest, events);
  Agreement result;
  std::vector<uint32_t> absent;  // of the missing: never connected
  for (uint32_t rank = 0; rank < attempt.world_size && result.missing.size() < kMostMissing; ++rank) {
    const auto source = newest.find(rank);
    const auto answer = answers.find(rank);
    const std::string name = "rank " + std::to_string(rank);
    if (source != newest.end() && source->second->goodbye)
      return {Verdict::kWithdraw, {}, name + " has ended"};
    if (answer != answers.end() && answer->second->action_state == ActionState::kRefused) {
      return {Verdict::kWithdraw, {}, name + " refused: " + answer->second->detail};
    }
    if (answer != answers.end()) continue;
    result.missing.push_back(rank);
    if (source == newest.end()) absent.push_back(rank);
  }
  if (result.missing.empty()) {
    result.verdict = Verdict::kCommit;
  } else if (overdue) {
    result.verdict = Verdict::kWithdraw;
    result.why = Ranks(result.missing) + " did not acknowledge";
    if (!absent.empty()) result.why += " (" + Ranks(absent) + " never connected)";
  }
  return result;
}

bool IsSettled(const std::string& action_id, const store::AttemptInfo& attempt,
               const std::vector<store::StoredEvent>& events) {
  auto waiting = NewestOfRanks(attempt);
  for (const store::StoredEvent& stored : events) {
    if (!IsAbout(stored, action_id)) continue;
    const ActionState state = stored.event.action_state;
    if (state == ActionState::kTaken || state == ActionState::kRefused || state == ActionState::kExpired) {
      waiting.erase(stored.rank);
    }
  }
  return waiting.empty();
}

std::string Deviations(const v1::Action& action, const std::vector<store::StoredEvent>& events) {
  std::map<uint32_t, std::string>
      said;  // by rank: one that refused may still have switched, as another process
  for (const store::StoredEvent& stored : events) {
    if (!IsAbout(stored, action.id())) continue;
    const wire::Event& event = stored.event;
    const std::string name = "rank " + std::to_string(stored.rank);
    if (event.action_state == ActionState::kTaken) {
      // A rank that is told in time reports behind its last step before the switch.
      const int64_t late = event.step + 1 - action.effective_step();
      said[stored.rank] = late > 0 ? name + " switched " + std::to_string(late) + " steps late" : "";
    } else if (event.action_state == ActionState::kAcknowledged) {
      said[stored.rank].clear();  // a refusal before it was another process's
    } else if (event.action_state == ActionState::kRefused) {
      said[stored.rank] = name + " refused after all: " + event.detail;
    }
  }
  std::string text;
  for (const auto& [rank, words] : said) {
    if (words.empty()) continue;
    if (text.size() > 800) return text + "; and more";
    text += (text.empty() ? "" : "; ") + words;
  }
  return text;
}

bool Conclude(const store::AttemptInfo& attempt, const std::vector<store::StoredEvent>& events, bool overdue,
              int64_t switch_step, v1::ActionRecord* record) {
  v1::Action& action = *record->mutable_action();
  record->clear_waits_for_ranks();
  if (action.committed()) {
    const std::string deviations = Deviations(action, events);
    if (!deviations.empty()) record->set_detail(deviations);
    const bool nobody =
        record->state() == v1::ACTION_STATE_COMMITTED && IsSettled(action.id(), attempt, events);
    if (nobody) record->set_state(v1::ACTION_STATE_REFUSED);
    return false;
  }
  if (record->state() != v1::ACTION_STATE_PROPOSED) return false;
  Agreement agreement = Judge(action.id(), attempt, events, overdue);
  const std::string step = std::to_string(switch_step);
  if (agreement.verdict == Verdict::kCommit && action.expiry_step() > 0 &&
      switch_step >= action.expiry_step()) {
    agreement.verdict = Verdict::kWithdraw;
    agreement.why = "the ranks can switch at step " + step + " at the earliest, and it expires at " +
                    std::to_string(action.expiry_step());
  }
  record->set_state_step(attempt.last_step.value_or(0));
  switch (agreement.verdict) {
    case Verdict::kWait:
      record->set_detail("waits for " + Ranks(agreement.missing));
      record->mutable_waits_for_ranks()->Add(agreement.missing.begin(), agreement.missing.end());
      return true;
    case Verdict::kCommit:
      action.set_effective_step(switch_step);
      action.set_committed(true);
      record->set_state(v1::ACTION_STATE_COMMITTED);
      record->set_detail("every rank has acknowledged it; all switch at step " + step);
      return false;
    case Verdict::kWithdraw:
      record->set_state(v1::ACTION_STATE_WITHDRAWN);
      record->set_detail(agreement.why);
      return false;
  }
  return false;
}

}  // namespace foreshock::control
