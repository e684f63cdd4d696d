#include "action_desk.h"

#include <cstring>

namespace foreshock::sdk {

bool ActionDesk::IsNews(const char* id, bool proposal) noexcept {
  for (const auto& seen : seen_) {
    if (std::strcmp(seen.data(), id) == 0) return false;
  }
  if (proposal) return true;
  CopyText(id, seen_[next_seen_].data(), seen_[next_seen_].size());
  next_seen_ = (next_seen_ + 1) % kRemembered;
  return true;
}

ActionDesk::Entry* ActionDesk::FindRoom() noexcept {
  for (Entry& entry : entries_) {
    if (entry.phase == kFree) return &entry;
  }
  // An action that the trainer took and never reported on gives way.
  for (Entry& entry : entries_) {
    if (entry.phase == kGiven) return &entry;
  }
  return nullptr;
}

const ActionSlot* ActionDesk::Next(int64_t next_step) noexcept {
  for (Entry& entry : entries_) {
    if (entry.phase != kWaiting || entry.action.effective_step > next_step) continue;
    entry.phase = kGiven;
    return &entry.action;
  }
  return nullptr;
}

const ActionSlot* ActionDesk::CloseOut(const char* id) noexcept {
  for (Entry& entry : entries_) {
    if (entry.phase != kGiven || std::strcmp(entry.action.id, id) != 0) continue;
    entry.phase = kFree;
    return &entry.action;
  }
  return nullptr;
}

}  // namespace foreshock::sdk
