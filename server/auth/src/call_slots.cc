#include "foreshock/server/auth/call_slots.h"

namespace foreshock::auth {

Result<std::unique_ptr<CallSlots::Slot>> CallSlots::Take(const std::string& caller) {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(caller);
  const size_t mine = found == open_.end() ? 0 : found->second;
  if (mine >= most_each_) {
    ++refused_;
    return Status(Code::kResourceExhausted, what_ + ": " + caller + " has " + std::to_string(mine) +
                                                " open, at most " + std::to_string(most_each_) + " (" +
                                                each_name_ + ")");
  }
  if (total_ >= most_) {
    ++refused_;
    return Status(Code::kResourceExhausted, what_ + ": " + std::to_string(total_) + " are open, at most " +
                                                std::to_string(most_) + " at a time (" + most_name_ + ")");
  }
  ++open_[caller];
  ++total_;
  return std::make_unique<Slot>(this, caller);
}

void CallSlots::Release(const std::string& caller) {
  std::lock_guard lock(mutex_);
  --total_;
  const auto found = open_.find(caller);
  if (found != open_.end() && --found->second == 0) open_.erase(found);
}

uint64_t CallSlots::open() const {
  std::lock_guard lock(mutex_);
  return total_;
}

uint64_t CallSlots::refused() const {
  std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace foreshock::auth
