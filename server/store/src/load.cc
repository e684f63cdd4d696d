// Opening: the format's version and the registry.
#include "format.h"
#include "keys.h"
#include "store_impl.h"

namespace foreshock::store {
namespace {

constexpr std::string_view kFormatVersion = "4";
// All frames of a folder of version 1 are open; one of version 2 has no rollups, one of version 3 no shards
// in columns: where those of version 4 begin.
constexpr std::string_view kOlderVersions[] = {"1", "2", "3"};

Status Malformed(const char* what) { return Status(Code::kDataLoss, std::string(what) + ": malformed key"); }

Status LoadRun(std::string_view key, std::string_view value, Registry* registry) {
  const auto id = ParseRunKey(key);
  if (!id) return Malformed("run record");
  RunEntry& run = registry->runs[id->run];
  run.number = id->run;
  return DecodeRun(value, &run);
}

Status LoadAttempt(std::string_view key, std::string_view value, Registry* registry) {
  const auto id = ParseAttemptKey(key);
  if (!id || !registry->runs.contains(id->run)) return Malformed("attempt record");
  AttemptEntry& attempt = registry->runs[id->run].attempts[id->attempt];
  attempt.number = id->attempt;
  return DecodeAttempt(value, &attempt);
}

Status LoadSource(std::string_view key, std::string_view value, Registry* registry) {
  const auto parts = ParseSourceKey(key);
  AttemptEntry* attempt = parts ? registry->FindAttempt(parts->source.run, parts->source.attempt) : nullptr;
  if (attempt == nullptr) return Malformed("source record");
  SourceInfo source;
  source.id = parts->source;
  FS_RETURN_IF_ERROR(DecodeSource(value, &source));
  if (source.hello == nullptr) return Status(Code::kDataLoss, "source record: no Hello");
  source.last_unix_ns = source.first_unix_ns;
  attempt->Enter(std::move(source));
  return OkStatus();
}

Status LoadCounters(std::string_view key, std::string_view value, Registry* registry) {
  const auto parts = ParseSourceKey(key);
  SourceInfo* source = parts ? registry->FindSource(parts->source) : nullptr;
  if (source == nullptr) return Malformed("source counters");
  return DecodeCounters(value, source);
}

using LoadEntry = Status (*)(std::string_view key, std::string_view value, Registry* registry);

Status LoadTable(const Database& db, Table table, LoadEntry load, Registry* registry) {
  Status status;
  FS_RETURN_IF_ERROR(db.Scan(TablePrefix(table), {}, [&](std::string_view key, std::string_view value) {
    status = load(key, value, registry);
    return status.ok();
  }));
  return status;
}

}  // namespace

Result<bool> CheckFormat(const Database& db) {
  const Result<std::string> format = db.Get(FormatKey());
  if (!format.ok()) return format.status();
  if (*format == kFormatVersion) return true;
  for (const std::string_view older : kOlderVersions) {
    if (*format == older) return false;
  }
  return Status(Code::kFailedPrecondition,
                "format: version " + *format + ", this server reads 1 to " + std::string(kFormatVersion));
}

Status StoreImpl::Load() {
  const Result<bool> current = CheckFormat(*db_);
  const bool fresh = current.status().code() == Code::kNotFound;
  if (!fresh && !current.ok()) return current.status();
  if (fresh || !*current) {
    // From here on an older server must not touch the folder: it would not see what is sealed.
    Batch batch;
    batch.Put(FormatKey(), kFormatVersion);
    FS_RETURN_IF_ERROR(db_->Write(batch, true));
  }
  if (fresh) return OkStatus();
  FS_RETURN_IF_ERROR(LoadTable(*db_, Table::kRun, LoadRun, &registry_));
  FS_RETURN_IF_ERROR(LoadTable(*db_, Table::kAttempt, LoadAttempt, &registry_));
  FS_RETURN_IF_ERROR(LoadTable(*db_, Table::kSource, LoadSource, &registry_));
  FS_RETURN_IF_ERROR(LoadTable(*db_, Table::kCounters, LoadCounters, &registry_));
  const Result<std::string> alive = db_->Get(AliveKey());
  if (alive.ok()) alive_before_ns_ = std::strtoll(alive->c_str(), nullptr, 10);
  const Result<std::string> next = db_->Get(NextRunKey());
  if (next.ok()) registry_.next_run = static_cast<uint32_t>(std::strtoul(next->c_str(), nullptr, 10));
  FindDeleted();
  return db_->Scan(TablePrefix(Table::kUnmerged), {}, [this](std::string_view key, std::string_view) {
    // Marks of one rank alone were a fault of earlier versions: nobody would merge, and nothing be sealed.
    const auto mark = ParseUnmergedKey(key);
    const AttemptEntry* attempt =
        mark ? registry_.FindAttempt(mark->source.run, mark->source.attempt) : nullptr;
    if (attempt != nullptr && attempt->world_size() > 1) marks_[std::string(key)] = 0;
    return true;
  });
}

}  // namespace foreshock::store
