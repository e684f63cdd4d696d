// Actions on their way to the trainer and back: nothing is taken twice, late ones expire, and what the
// trainer must not see is refused for it. Fixed room; the trainer's thread.
//
// A proposal is answered and not kept: what was agreed on comes again as an action of the same id, committed,
// and where none comes nothing happens. So a process that never saw the proposal can take the commit, too.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "foreshock/sdk/exporter.h"

namespace foreshock::sdk {

class ActionDesk {
 public:
  static constexpr size_t kMaxOpen = 64;      // waiting or given out
  static constexpr size_t kRemembered = 256;  // ids that would be taken for repetitions

  // Takes in what has arrived. report(action, state, detail) is called for every action that is delivered,
  // refused or has expired, and for every proposal that is acknowledged or refused, as often as it comes.
  // objection(action): why this trainer cannot do what is proposed; "" where it can. `several`: of several
  // ranks, which switch at one step or not at all: what comes after its step is refused, unless it was
  // committed: then the others have switched, and this rank does at once.
  template <typename Objection, typename Report>
  void Collect(ActionQueue& queue, int64_t next_step, bool several, Objection&& objection, Report&& report) {
    uint64_t lost = 0;
    while (const ActionSlot* action = queue.Take(&lost)) {
      if (!IsNews(action->id, action->proposal)) continue;
      if (action->proposal) {
        const char* why = action->refuse[0] != '\0' ? action->refuse : objection(*action);
        const bool agrees = why[0] == '\0';
        report(*action, agrees ? wire::ActionState::kAcknowledged : wire::ActionState::kRefused, why);
        continue;
      }
      if (action->refuse[0] != '\0') {
        report(*action, wire::ActionState::kRefused, action->refuse);
        continue;
      }
      if (several && IsSwitch(*action) && !action->committed && action->effective_step < next_step) {
        char text[112];
        std::snprintf(text, sizeof text, "came too late: the ranks switch at step %lld, this one is at %lld",
                      static_cast<long long>(action->effective_step), static_cast<long long>(next_step));
        report(*action, wire::ActionState::kRefused, text);
        continue;
      }
      Entry* room = FindRoom();
      if (room == nullptr) {
        report(*action, wire::ActionState::kRefused, "too many actions are open");
        continue;
      }
      room->phase = kWaiting;
      room->action = *action;
      report(*action, wire::ActionState::kDelivered, "");
    }
    for (Entry& entry : entries_) {
      if (entry.phase != kWaiting || !Expired(entry.action, next_step)) continue;
      entry.phase = kFree;
      report(entry.action, wire::ActionState::kExpired, "not taken before its expiry step");
    }
  }

  // The oldest action whose moment has come; nullptr when there is none. It counts as given out.
  const ActionSlot* Next(int64_t next_step) noexcept;
  // The action that was given out under this id, which is then closed; nullptr for an unknown one.
  const ActionSlot* CloseOut(const char* id) noexcept;

 private:
  enum Phase : uint8_t { kFree, kWaiting, kGiven };
  struct Entry {
    Phase phase = kFree;
    ActionSlot action;
  };
  static bool Expired(const ActionSlot& action, int64_t next_step) {
    return !action.committed && action.expiry_step > 0 && next_step >= action.expiry_step;
  }
  static bool IsSwitch(const ActionSlot& action) {
    return std::strcmp(action.kind, "enable_qk_norm") == 0 || std::strcmp(action.kind, "qk_clip") == 0;
  }
  // False: the same was seen before, or it is a proposal that its own action has overtaken.
  bool IsNews(const char* id, bool proposal) noexcept;
  Entry* FindRoom() noexcept;

  std::array<Entry, kMaxOpen> entries_;
  std::array<std::array<char, 80>, kRemembered> seen_ = {};  // of actions; a proposal may come again
  size_t next_seen_ = 0;
};

}  // namespace foreshock::sdk
