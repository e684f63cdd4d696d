// The key-value space of other parts.
#include "keys.h"
#include "store_impl.h"

namespace foreshock::store {
namespace {

Status CheckMeta(std::string_view kind, std::string_view run) {
  if (kind.empty() || kind.size() > 64) {
    return Status(Code::kInvalidArgument,
                  "kind: " + std::to_string(kind.size()) + " characters, must be 1 to 64");
  }
  if (run.size() > 0xFFFF) {
    return Status(Code::kInvalidArgument, "run: " + std::to_string(run.size()) + " bytes, at most 65535");
  }
  return OkStatus();
}

MetaEntry ToEntry(const MetaKeyParts& parts, std::string_view value) {
  return {std::string(parts.kind), std::string(parts.run), std::string(parts.key), std::string(value)};
}

}  // namespace

Status StoreImpl::PutMeta(std::span<const MetaEntry> entries) {
  Batch batch;
  for (const MetaEntry& entry : entries) {
    FS_RETURN_IF_ERROR(CheckMeta(entry.kind, entry.run));
    batch.Put(MetaKey(entry.kind, entry.run, entry.key), entry.value);
  }
  return db_->Write(batch, true);
}

Status StoreImpl::DeleteMeta(std::string_view kind, std::string_view run, std::string_view key) {
  FS_RETURN_IF_ERROR(CheckMeta(kind, run));
  Batch batch;
  batch.Delete(MetaKey(kind, run, key));
  return db_->Write(batch, true);
}

Result<std::string> StoreImpl::GetMeta(std::string_view kind, std::string_view run,
                                       std::string_view key) const {
  FS_RETURN_IF_ERROR(CheckMeta(kind, run));
  return db_->Get(MetaKey(kind, run, key));
}

Result<std::vector<MetaEntry>> StoreImpl::ScanMeta(std::string_view kind, std::string_view run,
                                                   std::string_view key_prefix) const {
  FS_RETURN_IF_ERROR(CheckMeta(kind, run));
  std::vector<MetaEntry> entries;
  FS_RETURN_IF_ERROR(
      db_->Scan(MetaKey(kind, run, key_prefix), {}, [&](std::string_view key, std::string_view value) {
        if (const auto parts = ParseMetaKey(key)) entries.push_back(ToEntry(*parts, value));
        return true;
      }));
  return entries;
}

Result<std::vector<MetaEntry>> StoreImpl::ScanMetaOfAllRuns(std::string_view kind) const {
  FS_RETURN_IF_ERROR(CheckMeta(kind, {}));
  std::vector<MetaEntry> entries;
  FS_RETURN_IF_ERROR(
      db_->Scan(TablePrefix(Table::kMeta), {}, [&](std::string_view key, std::string_view value) {
        const auto parts = ParseMetaKey(key);
        if (parts && parts->kind == kind) entries.push_back(ToEntry(*parts, value));
        return true;
      }));
  return entries;
}

}  // namespace foreshock::store
