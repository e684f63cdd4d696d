#include "action_log.h"

#include "foreshock/base/logging.h"

namespace foreshock::control {
namespace {

std::vector<LoggedAction> Parse(const std::vector<store::MetaEntry>& entries) {
  std::vector<LoggedAction> actions;
  for (const store::MetaEntry& entry : entries) {
    LoggedAction action{entry.run, {}};
    if (action.record.ParseFromString(entry.value)) {
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

Result<std::vector<LoggedAction>> ReadActions(const store::Store& store, const std::string& run) {
  FS_ASSIGN_OR_RETURN(const auto entries, store.ScanMeta(kActionKind, run));
  return Parse(entries);
}

Result<std::vector<LoggedAction>> ReadAllActions(const store::Store& store) {
  FS_ASSIGN_OR_RETURN(const auto entries, store.ScanMetaOfAllRuns(kActionKind));
  return Parse(entries);
}

}  // namespace foreshock::control
