#include "action_log.h"

#include "foreshock/base/logging.h"
#include "foreshock/server/control/controls.h"

namespace foreshock::control {
namespace {

std::vector<LoggedAction> Parse(const std::vector<store::MetaEntry>& entries) {
  std::vector<LoggedAction> actions;
  for (const store::MetaEntry& entry : entries) {
    LoggedAction action{entry.run, {}};
    // Under another name it could stand for another run's action.
    if (action.record.ParseFromString(entry.value) && action.record.action().id() == entry.key) {
      actions.push_back(std::move(action));
    } else {
      LogWarning("server/control", "an action in the store is not readable and is left out",
                 {{"run", entry.run}, {"action", entry.key}});
    }
  }
  return actions;
}

}  // namespace

Status WriteAction(store::Store* store, const LoggedAction& action) {
  const store::MetaEntry entries[] = {
      {kActionKind, action.run, action.record.action().id(), action.record.SerializeAsString()}};
  return store->PutMeta(entries);
}

bool Supersedes(std::string_view kind, const std::string& here, const std::string& told) {
  v1::ActionRecord one, other;
  if (kind != kActionKind || !one.ParseFromString(here) || !other.ParseFromString(told)) return false;
  return other.action().committed() && !one.action().committed() && one.action().id() == other.action().id();
}

Result<std::vector<LoggedAction>> ReadActions(const store::Store& store, const std::string& run) {
  FS_ASSIGN_OR_RETURN(const auto entries, store.ScanMeta(kActionKind, run));
  return Parse(entries);
}

Result<std::vector<LoggedAction>> ReadAllActions(const store::Store& store) {
  FS_ASSIGN_OR_RETURN(const auto entries, store.ScanMetaOfAllRuns(kActionKind));
  return Parse(entries);
}

}  // namespace foreshock::control
