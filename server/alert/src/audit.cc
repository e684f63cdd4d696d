#include "foreshock/server/alert/audit.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "foreshock/base/logging.h"

namespace foreshock::alert {
namespace {

constexpr char kAuditKind[] = "audit";
constexpr size_t kKeyDigits = 20;

std::string KeyOf(int64_t time_unix_ns) {
  const std::string digits = std::to_string(time_unix_ns);
  return std::string(kKeyDigits - std::min(digits.size(), kKeyDigits), '0') + digits;
}

size_t HashOf(const std::string& value) { return std::hash<std::string>()(value); }

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
  for (const store::MetaEntry& entry : entries)
    log->lines_.push_back({std::strtoll(entry.key.c_str(), nullptr, 10), HashOf(entry.value)});
  if (!log->lines_.empty()) log->last_time_ = log->lines_.back().time;
  return log;
}

std::deque<AuditLog::Line>::iterator AuditLog::From(int64_t time) {
  return std::lower_bound(lines_.begin(), lines_.end(), time,
                          [](const Line& line, int64_t wanted) { return line.time < wanted; });
}

store::MetaEntry AuditLog::Prepare(AuditEntry entry) {
  const nlohmann::json value = {{"who", entry.who},
                                {"what", entry.what},
                                {"run", entry.run},
                                {"subject", entry.subject},
                                {"detail", entry.detail}};
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string key, oldest;
  {
    std::lock_guard lock(mutex_);
    last_time_ = std::max(last_time_ + 1, clock_->WallNanos());
    // One that was adopted may stand at this time.
    auto next = From(last_time_);
    for (; next != lines_.end() && next->time == last_time_; ++next) ++last_time_;
    key = KeyOf(last_time_);
    lines_.insert(next, {last_time_, HashOf(text)});
    if (lines_.size() > most_) {
      oldest = KeyOf(lines_.front().time);
      lines_.pop_front();
    }
  }
  // One that stays behind is dropped after the next start.
  if (!oldest.empty()) store_->DeleteMeta(kAuditKind, "", oldest).IgnoreError();
  return {kAuditKind, "", std::move(key), std::move(text)};
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
  if (read.time_unix_ns > clock_->WallNanos() + store::kMostAheadNs)
    return Status(Code::kInvalidArgument, "audit entry: its time is more than a day ahead: " + entry.key);
  const size_t hash = HashOf(entry.value);
  std::lock_guard lock(mutex_);
  int64_t at = read.time_unix_ns;
  auto next = From(at);
  // Lines that stand there without a gap are passed in memory: an archive may bring thousands of one time.
  for (; next != lines_.end() && next->time == at; ++next, ++at) {
    if (next->hash != hash) continue;
    const Result<std::string> here = store_->GetMeta(kAuditKind, "", KeyOf(at));
    if (here.ok() && *here == entry.value) return false;
  }
  if (lines_.size() >= most_ && at < lines_.front().time) return false;
  entry.key = KeyOf(at);
  const store::MetaEntry entries[] = {entry};
  FS_RETURN_IF_ERROR(store_->PutMeta(entries));
  lines_.insert(next, {at, hash});
  while (lines_.size() > most_) {
    store_->DeleteMeta(kAuditKind, "", KeyOf(lines_.front().time)).IgnoreError();  // as in Prepare
    lines_.pop_front();
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
