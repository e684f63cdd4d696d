#include "ledger.h"

#include "foreshock/base/logging.h"

namespace foreshock::notify {
namespace {

constexpr char kKind[] = "notify";

}  // namespace

Status Ledger::Load() {
  const std::string prefix = target_ + "\n";
  FS_ASSIGN_OR_RETURN(const auto entries, store_->ScanMetaOfAllRuns(kKind));
  for (const store::MetaEntry& entry : entries) {
    if (!entry.key.starts_with(prefix)) continue;
    const std::string id = entry.key.substr(prefix.size());
    // Only of its own run's alerts: the entry may have come in an archive.
    if (id.starts_with(entry.run + "/")) told_[id] = StateOf(entry.value);
  }
  return OkStatus();
}

alert::AlertState Ledger::StateOf(const std::string& value) {
  return value == "resolved" ? alert::AlertState::kResolved : alert::AlertState::kFiring;
}

void Ledger::Learn(const alert::AlertRecord& record) {
  if (told_.contains(record.alert.id)) return;
  const auto value = store_->GetMeta(kKind, record.alert.run, target_ + "\n" + record.alert.id);
  if (value.ok()) told_[record.alert.id] = StateOf(*value);
}

std::optional<alert::AlertState> Ledger::Told(const std::string& alert_id) const {
  const auto it = told_.find(alert_id);
  if (it == told_.end()) return std::nullopt;
  return it->second;
}

void Ledger::Tell(const std::vector<alert::AlertRecord>& records) {
  std::map<std::string, store::MetaEntry> last;  // a group may hold both states of one alert, in order
  for (const alert::AlertRecord& record : records) {
    told_[record.alert.id] = record.alert.state;
    last[record.alert.id] = {kKind, record.alert.run, target_ + "\n" + record.alert.id,
                             std::string(alert::AlertStateName(record.alert.state))};
  }
  std::vector<store::MetaEntry> entries;
  for (const auto& [id, entry] : last) entries.push_back(entry);
  const Status status = store_->PutMeta(entries);
  if (!status.ok()) {
    LogWarning("server/notify", "what was delivered cannot be written; a restart may repeat it",
               {{"target", target_}, {"error", status}});
  }
}

}  // namespace foreshock::notify
