#include "book.h"

#include "foreshock/base/logging.h"

namespace foreshock::alert {

Status Book::Load() {
  FS_ASSIGN_OR_RETURN(const auto entries, store_->ScanMetaOfAllRuns(kAlertKind));
  Take(entries);
  return OkStatus();
}

Status Book::LoadRun(const std::string& run) {
  FS_ASSIGN_OR_RETURN(const auto entries, store_->ScanMeta(kAlertKind, run));
  Take(entries);
  return OkStatus();
}

void Book::Take(const std::vector<store::MetaEntry>& entries) {
  std::lock_guard lock(mutex_);
  for (const store::MetaEntry& entry : entries) {
    auto record = RecordFrom(entry);
    if (!record.ok()) {
      LogWarning("server/alert", "an alert in the store is not readable and is left out",
                 {{"alert", entry.key}, {"error", record.status()}});
    } else if (record->alert.state == AlertState::kFiring) {
      firing_[record->alert.id] = std::move(*record);
    }
  }
}

void Book::Complete(int64_t now_unix_ns, const std::string& because, AlertRecord* record) const {
  const auto known = firing_.find(record->alert.id);
  record->fired_unix_ns = known != firing_.end() ? known->second.fired_unix_ns : now_unix_ns;
  if (known != firing_.end()) record->run_labels = known->second.run_labels;
  if (record->alert.state != AlertState::kResolved) return;
  record->resolved_unix_ns = now_unix_ns;
  record->resolved_because = because;
}

std::vector<AlertRecord> Book::Apply(std::vector<AlertRecord> news, int64_t now_unix_ns,
                                     const std::string& because, store::MetaEntry engine_state) {
  {
    std::lock_guard lock(mutex_);
    for (AlertRecord& record : news) {
      Complete(now_unix_ns, because, &record);
      if (record.alert.state == AlertState::kFiring) {
        firing_[record.alert.id] = record;
      } else {
        firing_.erase(record.alert.id);
      }
    }
  }
  Write(news, std::move(engine_state));
  return news;
}

void Book::Write(const std::vector<AlertRecord>& records, store::MetaEntry engine_state) {
  std::map<std::pair<std::string, std::string>, store::MetaEntry> batch;
  {
    std::lock_guard lock(mutex_);
    batch = unwritten_;
  }
  const auto add = [&](store::MetaEntry entry) {
    const std::pair key(entry.kind + "/" + entry.run, entry.key);
    batch[key] = std::move(entry);
  };
  for (const AlertRecord& record : records) add(ToEntry(record));
  add(std::move(engine_state));
  std::vector<store::MetaEntry> entries;
  for (const auto& [key, entry] : batch) entries.push_back(entry);
  const Status status = store_->PutMeta(entries);
  std::lock_guard lock(mutex_);
  if (status.ok()) {
    unwritten_.clear();
    return;
  }
  if (write_failures_++ == 0 || !records.empty()) {
    LogWarning("server/alert", "alerts cannot be written, trying again later", {{"error", status}});
  }
  unwritten_ = std::move(batch);
}

void Book::Refresh(const std::vector<Alert>& open) {
  std::lock_guard lock(mutex_);
  for (const Alert& alert : open) {
    const auto it = firing_.find(alert.id);
    if (it == firing_.end()) continue;
    const auto checkpoint = it->second.alert.last_checkpoint_step;
    it->second.alert = alert;
    it->second.alert.last_checkpoint_step = checkpoint;
  }
}

void Book::ForgetRun(const std::string& run) {
  std::lock_guard lock(mutex_);
  std::erase_if(firing_, [&](const auto& item) { return item.second.alert.run == run; });
  std::erase_if(unwritten_, [&](const auto& item) { return item.second.run == run; });
}

std::vector<AlertRecord> Book::Firing() const {
  std::vector<AlertRecord> records;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, record] : firing_) records.push_back(record);
  }
  SortNewestFirst(&records);
  return records;
}

Result<std::vector<AlertRecord>> Book::Read(const std::optional<std::string>& run) const {
  FS_ASSIGN_OR_RETURN(std::vector<store::MetaEntry> entries,
                      run ? store_->ScanMeta(kAlertKind, *run) : store_->ScanMetaOfAllRuns(kAlertKind));
  std::map<std::string, AlertRecord> by_id;
  std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : unwritten_) {
    if (entry.kind == kAlertKind && (!run || entry.run == *run)) entries.push_back(entry);
  }
  for (const store::MetaEntry& entry : entries) {
    auto record = RecordFrom(entry);
    if (record.ok()) by_id[record->alert.id] = std::move(*record);
  }
  for (const auto& [id, record] : firing_) {
    if (!run || record.alert.run == *run) by_id[id] = record;
  }
  std::vector<AlertRecord> records;
  for (auto& [id, record] : by_id) records.push_back(std::move(record));
  SortNewestFirst(&records);
  return records;
}

}  // namespace foreshock::alert
