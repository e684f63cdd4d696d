// What a target was told last of each alert, kept in the store: kind "notify", run, key TARGET + "\n" + alert
// id, value "firing" or "resolved". One owner (the target's sender), which locks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/store/store.h"

namespace foreshock::notify {

class Ledger {
 public:
  Ledger(store::Store* store, std::string target) : store_(store), target_(std::move(target)) {}

  Status Load();
  // Looks whether it was told of this alert by another server, of which the run was imported; before Told.
  void Learn(const alert::AlertRecord& record);
  // nullopt: it was never told of it.
  std::optional<alert::AlertState> Told(const std::string& alert_id) const;
  // Told now. When the write fails the entry holds for the life of this process, and a restart may repeat it.
  void Tell(const std::vector<alert::AlertRecord>& records);

 private:
  store::Store* const store_;
  const std::string target_;
  static alert::AlertState StateOf(const std::string& value);
  std::map<std::string, alert::AlertState> told_;  // by alert id
};

}  // namespace foreshock::notify
