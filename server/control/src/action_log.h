// The records of actions in the store's key-value space: kind "action", run, key action id, value an encoded
// ActionRecord. Ids rise with time, so that keys are in order. Thread-safe as the store is.
#pragma once

#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/store/store.h"
#include "foreshock/v1/control.pb.h"

namespace foreshock::control {

inline constexpr char kActionKind[] = "action";
inline constexpr char kSamplingKind[] = "sampling";  // key attempt, value an encoded Sampling

struct LoggedAction {
  std::string run;
  v1::ActionRecord record;
};

Status WriteAction(store::Store* store, const LoggedAction& action);
// Unreadable entries are left out, with a line in the log.
Result<std::vector<LoggedAction>> ReadActions(const store::Store& store, const std::string& run);
Result<std::vector<LoggedAction>> ReadAllActions(const store::Store& store);

}  // namespace foreshock::control
