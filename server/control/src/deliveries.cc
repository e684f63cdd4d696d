#include "deliveries.h"

#include "progress.h"

namespace foreshock::control {

void Deliveries::HandOn(const LoggedAction& logged) {
  const v1::Action& action = logged.record.action();
  const bool proposal = logged.record.two_phase() && !action.committed();
  if (proposal) (void)Deadline(action.id());
  {
    std::lock_guard lock(mutex_);
    const auto [known, fresh] = handed_on_.try_emplace(action.id(), proposal);
    if (!fresh && known->second == proposal) return;
    known->second = proposal;
    if (!proposal) deadlines_.erase(action.id());
  }
  if (proposal) {
    outbox_.PutProposal(logged.run, action.attempt(), ToWire(action));
  } else {
    outbox_.PutAction(logged.run, action.attempt(), ToWire(action));
  }
}

void Deliveries::TakeBack(const LoggedAction& logged) {
  const v1::Action& action = logged.record.action();
  {
    std::lock_guard lock(mutex_);
    deadlines_.erase(action.id());
    if (handed_on_.erase(action.id()) == 0) return;
  }
  outbox_.WithdrawAction(logged.run, action.attempt(), action.id());
}

int64_t Deliveries::Deadline(const std::string& action_id) {
  std::lock_guard lock(mutex_);
  const int64_t latest = clock_.MonotonicNanos() + timeout_.count();
  return deadlines_.try_emplace(action_id, latest).first->second;
}

}  // namespace foreshock::control
