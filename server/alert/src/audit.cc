#include "foreshock/server/alert/audit.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "foreshock/base/logging.h"

namespace foreshock::alert {
namespace {

constexpr char kAuditKind[] = "audit";
constexpr size_t kKeyDigits = 20;
constexpr int64_t kMostAheadNs = 86'400 * int64_t{1'000'000'000};  // clocks of two servers differ

std::string KeyOf(int64_t time_unix_ns) {
  const std::string digits = std::to_string(time_unix_ns);
  return std::string(kKeyDigits - std::min(digits.size(), kKeyDigits), '0') + digits;
}

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
  std::string key, oldest;
  {
    std::lock_guard lock(mutex_);
    last_time_ = std::max(last_time_ + 1, clock_->WallNanos());
    // One that was adopted may stand at this time.
    while (std::binary_search(keys_.begin(), keys_.end(), key = KeyOf(last_time_))) ++last_time_;
    keys_.insert(std::lower_bound(keys_.begin(), keys_.end(), key), key);
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

Result<std::vector<store::MetaEntry>> AuditLog::EntriesOf(const std::string& run) const {
  FS_ASSIGN_OR_RETURN(std::vector<store::MetaEntry> stored, store_->ScanMeta(kAuditKind, ""));
  std::erase_if(stored, [&](const store::MetaEntry& entry) {
    const auto read = AuditEntryFrom(entry);
    return !read.ok() || read->run != run;
  });
  return stored;
}

Result<bool> AuditLog::Adopt(const std::string& run, store::MetaEntry entry) {
  const bool time =
      entry.key.size() == kKeyDigits &&
      std::all_of(entry.key.begin(), entry.key.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (entry.kind != kAuditKind || !entry.run.empty() || !time) {
    return Status(Code::kInvalidArgument, "audit entry: its key is no time: '" + entry.key + "'");
  }
  FS_ASSIGN_OR_RETURN(const AuditEntry read, AuditEntryFrom(entry));
  if (read.run != run)
    return Status(Code::kInvalidArgument, "audit entry: of run '" + read.run + "', and not of '" + run + "'");
  // What this server writes next must not stand before it.
  if (read.time_unix_ns > clock_->WallNanos() + kMostAheadNs)
    return Status(Code::kInvalidArgument, "audit entry: its time is more than a day ahead: " + entry.key);
  std::lock_guard lock(mutex_);
  for (int64_t at = read.time_unix_ns;; ++at) {
    entry.key = KeyOf(at);
    const Result<std::string> here = store_->GetMeta(kAuditKind, "", entry.key);
    if (!here.ok()) break;
    if (*here == entry.value) return false;
  }
  if (keys_.size() >= most_ && entry.key < keys_.front()) return false;
  const store::MetaEntry entries[] = {entry};
  FS_RETURN_IF_ERROR(store_->PutMeta(entries));
  keys_.insert(std::lower_bound(keys_.begin(), keys_.end(), entry.key), entry.key);
  while (keys_.size() > most_) {
    store_->DeleteMeta(kAuditKind, "", keys_.front()).IgnoreError();  // as in Prepare
    keys_.pop_front();
  }
  return true;
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
