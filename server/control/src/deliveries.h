// What of the recorded actions is in the outbox, and since when proposals wait.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "action_log.h"
#include "foreshock/base/clock.h"
#include "foreshock/server/ingest/outbox.h"

namespace foreshock::control {

// Thread-safe.
class Deliveries {
 public:
  // Neither is owned; both outlive this.
  Deliveries(ingest::Outbox* outbox, const Clock* clock, std::chrono::nanoseconds acknowledge_timeout)
      : outbox_(*outbox), clock_(*clock), timeout_(acknowledge_timeout) {}

  // Into the outbox, once as a proposal and once as an action.
  void HandOn(const LoggedAction& logged);
  // Out of it. Nothing happens where it is not there.
  void TakeBack(const LoggedAction& logged);
  // The monotonic time until which a proposal may be acknowledged: counts from when this life of the server
  // first asked, or handed it on.
  int64_t Deadline(const std::string& action_id);

 private:
  ingest::Outbox& outbox_;
  const Clock& clock_;
  const std::chrono::nanoseconds timeout_;
  std::mutex mutex_;  // guards the next two
  std::map<std::string, int64_t> deadlines_;
  std::map<std::string, bool> handed_on_;  // by action id: as a proposal?
};

}  // namespace foreshock::control
