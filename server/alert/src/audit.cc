#include "foreshock/server/alert/audit.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "foreshock/base/logging.h"

namespace foreshock::alert {
namespace {

constexpr char kAuditKind[] = "audit";

Result<AuditEntry> AuditEntryFrom(const store::MetaEntry& stored) {
  try {
    const nlohmann::json in = nlohmann::json::parse(stored.value);
    AuditEntry entry;
    entry.time_unix_ns = std::stoll(stored.key);
    entry.who = in.at("who");
    entry.what = in.at("what");
    entry.run = in.at("run");
    entry.subject = in.at("subject");
    entry.detail = in.at("detail");
    return entry;
  } catch (const std::exception& error) {
    return Status(Code::kDataLoss, "audit entry " + stored.key + ": " + error.what());
  }
}

}  // namespace

Result<std::unique_ptr<AuditLog>> AuditLog::Open(store::Store* store, const Clock* clock, size_t most) {
  std::unique_ptr<AuditLog> log(new AuditLog(store, clock, std::max<size_t>(most, 1)));
  FS_ASSIGN_OR_RETURN(const auto entries, store->ScanMeta(kAuditKind, ""));
  for (const store::MetaEntry& entry : entries) log->keys_.push_back(entry.key);
  if (!log->keys_.empty()) log->last_time_ = std::strtoll(log->keys_.back().c_str(), nullptr, 10);
  return log;
}

store::MetaEntry AuditLog::Prepare(AuditEntry entry) {
  const nlohmann::json value = {{"who", entry.who},
                                {"what", entry.what},
                                {"run", entry.run},
                                {"subject", entry.subject},
                                {"detail", entry.detail}};
  std::string key(20, '0'), oldest;
  {
    std::lock_guard lock(mutex_);
    last_time_ = std::max(last_time_ + 1, clock_->WallNanos());
    const std::string digits = std::to_string(last_time_);
    key = std::string(20 - std::min<size_t>(digits.size(), 20), '0') + digits;
    keys_.push_back(key);
    if (keys_.size() > most_) {
      oldest = keys_.front();
      keys_.pop_front();
    }
  }
  // One that stays behind is dropped after the next start.
  if (!oldest.empty()) store_->DeleteMeta(kAuditKind, "", oldest).IgnoreError();
  return {kAuditKind, "", std::move(key),
          value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

void AuditLog::Add(AuditEntry entry) {
  const std::string what = entry.what, subject = entry.subject;
  const store::MetaEntry entries[] = {Prepare(std::move(entry))};
  const Status status = store_->PutMeta(entries);
  if (status.ok()) return;
  LogWarning("server/alert", "the audit trail cannot be written, an entry is lost",
             {{"what", what}, {"subject", subject}, {"error", status}});
}

Result<std::vector<AuditEntry>> AuditLog::Read(std::string_view run, size_t limit) const {
  FS_ASSIGN_OR_RETURN(const auto stored, store_->ScanMeta(kAuditKind, ""));
  std::vector<AuditEntry> entries;
  for (auto it = stored.rbegin(); it != stored.rend() && entries.size() < limit; ++it) {
    auto entry = AuditEntryFrom(*it);
    if (!entry.ok()) continue;
    if (run.empty() || entry->run == run) entries.push_back(*std::move(entry));
  }
  return entries;
}

}  // namespace foreshock::alert
