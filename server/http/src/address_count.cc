#include "address_count.h"

namespace foreshock::http {

bool AddressCount::Enter(const std::string& address) {
  std::lock_guard lock(mutex_);
  size_t& open = open_[address];
  if (most_ != 0 && open >= most_) return false;
  ++open;
  return true;
}

void AddressCount::Leave(const std::string& address) {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(address);
  if (found != open_.end() && --found->second == 0) open_.erase(found);
}

}  // namespace foreshock::http
