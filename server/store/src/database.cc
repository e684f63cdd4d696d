#include "database.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <cstdarg>
#include <cstdio>
#include <utility>

#include "foreshock/base/file.h"
#include "foreshock/base/logging.h"
#include "keys.h"
#include "rocksdb_crc32c.h"

namespace foreshock::store {
namespace {

constexpr size_t kKeptBatchBytes = 8 << 20;

// An empty view may point nowhere, and RocksDB hands pointers to memcmp.
rocksdb::Slice ToSlice(std::string_view text) {
  return text.empty() ? rocksdb::Slice() : rocksdb::Slice(text.data(), text.size());
}
std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

Status FromRocks(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return OkStatus();
  const std::string message = std::string(what) + ": " + status.ToString();
  if (status.IsNotFound()) return Status(Code::kNotFound, message);
  // A full disk may also hide in the text of a background error.
  if (status.IsNoSpace() || message.find("No space left") != std::string::npos) {
    return Status(Code::kResourceExhausted, message);
  }
  if (message.find("lock file") != std::string::npos || message.find("lock hold by") != std::string::npos)
    return Status(Code::kFailedPrecondition,
                  std::string(what) + ": in use by another server (" + status.ToString() + ")");
  if (message.find("Permission denied") != std::string::npos ||
      message.find("Read-only file system") != std::string::npos) {
    return Status(Code::kPermissionDenied, message);
  }
  if (status.IsCorruption()) return Status(Code::kDataLoss, message);
  return Status(Code::kIo, message);
}

// RocksDB would wait for free space in its own time; here the next write decides.
class NoAutoRecovery : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* auto_recovery) override {
    *auto_recovery = false;
  }
};

// RocksDB's own log goes where ours does. Not into a file beside the data: where that file cannot be written
// (a full disk) RocksDB builds with assertions abort in their logger.
class Log : public rocksdb::Logger {
 public:
  Log() : Logger(rocksdb::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}  // headers and other lines without a level
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::WARN_LEVEL || level > rocksdb::FATAL_LEVEL) return;
    char text[512];
    std::vsnprintf(text, sizeof text, format, arguments);
    if (level == rocksdb::WARN_LEVEL) {
      LogDebug("server/store", "RocksDB warns", {{"text", text}});
    } else {
      LogWarning("server/store", "RocksDB reports an error", {{"text", text}});
    }
  }
};

rocksdb::ReadOptions OptionsOf(const rocksdb::Snapshot* snapshot, bool once) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  options.fill_cache = !once;
  return options;
}

rocksdb::Options RocksOptions(const StoreOptions& from) {
  LinkChecksum();
  rocksdb::Options options;
  if (from.env != nullptr) options.env = from.env;
  options.create_if_missing = true;
  options.write_buffer_size = from.write_buffer_bytes;
  options.max_write_buffer_number = 3;
  // One column family: a full write buffer frees its log, whoever filled it. This is the second lock on the
  // door.
  options.max_total_wal_size = 4 * from.write_buffer_bytes;
  // Sealed chunks are compressed already, and open frames are noise.
  options.compression = rocksdb::kNoCompression;
  options.max_bgerror_resume_count = 0;
  options.listeners.push_back(std::make_shared<NoAutoRecovery>());
  options.info_log = std::make_shared<Log>();
  options.max_open_files = 512;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(from.block_cache_bytes);
  table.block_size = 16 << 10;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace

Batch::Batch() : batch_(std::make_unique<rocksdb::WriteBatch>()) {}
Batch::~Batch() = default;
void Batch::Clear(size_t bytes) {
  const size_t capacity = batch_->Data().capacity();
  if (capacity < bytes || capacity > kKeptBatchBytes) {
    batch_ = std::make_unique<rocksdb::WriteBatch>(bytes);
  } else {
    batch_->Clear();
  }
}
void Batch::Put(std::string_view key, std::string_view value) {
  // Into memory: it can only fail for want of a column family.
  batch_->Put(ToSlice(key), ToSlice(value)).PermitUncheckedError();
}
void Batch::Delete(std::string_view key) { batch_->Delete(ToSlice(key)).PermitUncheckedError(); }
void Batch::DeleteRange(std::string_view begin, std::string_view end) {
  batch_->DeleteRange(ToSlice(begin), ToSlice(end)).PermitUncheckedError();
}

Result<std::unique_ptr<Database>> Database::Open(const StoreOptions& options) {
  if (options.folder.empty()) return Status(Code::kInvalidArgument, "data folder: empty");
  if (options.env == nullptr) {
    FS_RETURN_IF_ERROR(CreateDirs(PosixFileSystem(), options.folder).Annotate("data folder"));
  }
  std::unique_ptr<Database> database(new Database(options));
  FS_RETURN_IF_ERROR(database->OpenNow());
  return database;
}

Database::Database(const StoreOptions& options) : options_(options) {}

Database::~Database() {
  std::unique_lock lock(db_mutex_);
  if (db_ != nullptr) db_->Close().PermitUncheckedError();
}

Status Database::OpenNow() {
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(RocksOptions(options_), options_.folder, &db);
  if (!status.ok()) return FromRocks(status, "data folder " + options_.folder);
  db_.reset(db);
  ++generation_;
  return OkStatus();
}

Status Database::Write(Batch& batch, bool sync) {
  FS_RETURN_IF_ERROR(Revive());
  rocksdb::WriteOptions write;
  write.sync = sync;
  rocksdb::Status result;
  {
    std::shared_lock lock(db_mutex_);
    result = db_->Write(write, batch.batch_.get());
  }
  const Status status = FromRocks(result, "write");
  std::lock_guard lock(health_mutex_);
  health_ = status;
  if (status.ok() && sync) ++synced_writes_;
  return status;
}

// Brings RocksDB back when the last write failed.
Status Database::Revive() {
  {
    std::lock_guard lock(health_mutex_);
    if (health_.ok()) return OkStatus();
  }
  const Status status = ResumeOrReopen();
  std::lock_guard lock(health_mutex_);
  if (!status.ok()) health_ = status;
  return status;
}

Status Database::ResumeOrReopen() {
  {
    std::shared_lock lock(db_mutex_);
    if (db_ != nullptr) {
      const rocksdb::Status resumed = db_->Resume();
      if (resumed.ok()) return OkStatus();
      // A disk that is still full: nothing that opening it again would mend.
      if (resumed.IsNoSpace()) return FromRocks(resumed, "write");
    }
  }
  std::unique_lock lock(db_mutex_);
  if (db_ != nullptr) db_->Close().PermitUncheckedError();
  db_.reset();
  return OpenNow();
}

Result<std::string> Database::Get(std::string_view key) const {
  FS_ASSIGN_OR_RETURN(const View view, Look());
  return view.Get(key);
}

Status Database::Scan(std::string_view prefix, std::string_view from, const Each& each) const {
  FS_ASSIGN_OR_RETURN(const View view, Look());
  return view.Scan(prefix, from, each);
}

Status Database::ScanBackward(std::string_view prefix, std::string_view before, const Each& each) const {
  FS_ASSIGN_OR_RETURN(const View view, Look());
  return view.ScanBackward(prefix, before, each);
}

Result<Database::View> Database::Look() const {
  View view;
  view.lock_ = std::shared_lock(db_mutex_);
  if (db_ == nullptr) return health();
  view.db_ = db_.get();
  view.snapshot_ = db_->GetSnapshot();
  view.generation_ = generation_;
  return view;
}

Database::View::View(View&& other) noexcept
    : lock_(std::move(other.lock_)),
      db_(other.db_),
      snapshot_(std::exchange(other.snapshot_, nullptr)),
      generation_(other.generation_),
      once_(other.once_) {}

Database::View::~View() {
  if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
}

Result<std::string> Database::View::Get(std::string_view key) const {
  std::string value;
  const rocksdb::Status status = db_->Get(OptionsOf(snapshot_, once_), ToSlice(key), &value);
  if (!status.ok()) return FromRocks(status, "read");
  return value;
}

Status Database::View::Scan(std::string_view prefix, std::string_view from, const Each& each) const {
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(OptionsOf(snapshot_, once_)));
  it->Seek(ToSlice(std::max(prefix, from)));
  for (; it->Valid() && it->key().starts_with(ToSlice(prefix)); it->Next()) {
    if (!each(ToView(it->key()), ToView(it->value()))) return OkStatus();
  }
  return FromRocks(it->status(), "read");
}

Status Database::View::ScanBackward(std::string_view prefix, std::string_view before,
                                    const Each& each) const {
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(OptionsOf(snapshot_, once_)));
  const std::string end = before.empty() ? PrefixEnd(std::string(prefix)) : std::string(before);
  end.empty() ? it->SeekToLast() : it->SeekForPrev(ToSlice(end));
  if (!end.empty() && it->Valid() && it->key() == ToSlice(end)) it->Prev();
  for (; it->Valid() && it->key().starts_with(ToSlice(prefix)); it->Prev()) {
    if (!each(ToView(it->key()), ToView(it->value()))) return OkStatus();
  }
  return FromRocks(it->status(), "read");
}

Status Database::WriteUnlogged(Batch& batch) {
  std::shared_lock lock(db_mutex_);
  if (db_ == nullptr) return health();
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  return FromRocks(db_->Write(write, batch.batch_.get()), "write");
}

Status Database::Flush() {
  std::shared_lock lock(db_mutex_);
  if (db_ == nullptr) return health();
  return FromRocks(db_->Flush(rocksdb::FlushOptions()), "flush");
}

Status Database::Compact(std::string_view begin, std::string_view end, bool all) {
  std::shared_lock lock(db_mutex_);
  if (db_ == nullptr) return health();
  const rocksdb::Slice from = ToSlice(begin), to = ToSlice(end);
  rocksdb::CompactRangeOptions options;
  options.canceled = &closing_;
  if (all) options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  return FromRocks(db_->CompactRange(options, &from, &to), "compact");
}

uint64_t Database::FileBytesOf(std::string_view begin, std::string_view end) const {
  std::shared_lock lock(db_mutex_);
  if (db_ == nullptr) return 0;
  const rocksdb::Range range(ToSlice(begin), ToSlice(end));
  uint64_t bytes = 0;
  if (!db_->GetApproximateSizes(&range, 1, &bytes).ok()) return 0;
  return bytes;
}

Result<uint64_t> Database::CopyInto(const std::string& folder) {
  std::shared_lock lock(db_mutex_);
  if (db_ == nullptr) return health();
  rocksdb::Env* env = db_->GetEnv();
  if (env->FileExists(folder).ok())
    return Status(Code::kAlreadyExists, "backup: " + folder + " is there already");
  rocksdb::Checkpoint* made = nullptr;
  FS_RETURN_IF_ERROR(FromRocks(rocksdb::Checkpoint::Create(db_.get(), &made), "backup"));
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  // 0: memory tables become files first, so that what was written past the log is in it, too.
  FS_RETURN_IF_ERROR(FromRocks(checkpoint->CreateCheckpoint(folder, 0), "backup"));
  std::vector<rocksdb::Env::FileAttributes> files;
  FS_RETURN_IF_ERROR(FromRocks(env->GetChildrenFileAttributes(folder, &files), "backup"));
  uint64_t bytes = 0;
  for (const auto& file : files) bytes += file.size_bytes;
  return bytes;
}

Status Database::health() const {
  std::lock_guard lock(health_mutex_);
  return health_;
}

uint64_t Database::wal_bytes() const {
  std::shared_lock lock(db_mutex_);
  if (db_ == nullptr) return 0;
  rocksdb::VectorLogPtr files;
  if (!db_->GetSortedWalFiles(files).ok()) return 0;
  uint64_t bytes = 0;
  for (const auto& file : files) bytes += file->SizeFileBytes();
  return bytes;
}

uint64_t Database::file_bytes() const { return IntProperty(rocksdb::DB::Properties::kTotalSstFilesSize); }
uint64_t Database::live_file_bytes() const { return IntProperty(rocksdb::DB::Properties::kLiveSstFilesSize); }

uint64_t Database::cache_bytes() const { return IntProperty(rocksdb::DB::Properties::kBlockCacheUsage); }
uint64_t Database::index_bytes() const {
  return IntProperty(rocksdb::DB::Properties::kEstimateTableReadersMem);
}
uint64_t Database::buffer_bytes() const { return IntProperty(rocksdb::DB::Properties::kSizeAllMemTables); }

uint64_t Database::IntProperty(const std::string& name) const {
  std::shared_lock lock(db_mutex_);
  uint64_t value = 0;
  if (db_ != nullptr) db_->GetIntProperty(name, &value);
  return value;
}

}  // namespace foreshock::store
