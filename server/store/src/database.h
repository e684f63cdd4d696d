// Database: RocksDB behind a few calls, with errors as Status and with recovery from a bad disk.
//
// After a failed write RocksDB refuses all writes until it is resumed; some errors need it closed and opened
// again. Write() tries both before it gives up, so that a caller who repeats the same write succeeds once the
// disk is well. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "foreshock/base/result.h"
#include "foreshock/server/store/store.h"

namespace rocksdb {
class DB;
class Snapshot;
class Status;
class WriteBatch;
}  // namespace rocksdb

namespace foreshock::store {

// Collects puts and deletions that are written as one.
class Batch {
 public:
  Batch();
  ~Batch();
  // Empties it and makes room for so many bytes. Its memory is used again unless it was much.
  void Clear(size_t bytes);
  void Put(std::string_view key, std::string_view value);
  void Delete(std::string_view key);
  // All keys with begin <= key < end.
  void DeleteRange(std::string_view begin, std::string_view end);

 private:
  friend class Database;
  std::unique_ptr<rocksdb::WriteBatch> batch_;
};

class Database {
 public:
  // As Store::Open.
  static Result<std::unique_ptr<Database>> Open(const StoreOptions& options);
  ~Database();

  Status Write(Batch& batch, bool sync);
  // kNotFound when there is no such key.
  Result<std::string> Get(std::string_view key) const;
  // Keys that begin with `prefix` and are >= from, rising; `each` returns false to stop. Keys and values
  // live for the call.
  using Each = std::function<bool(std::string_view key, std::string_view value)>;
  Status Scan(std::string_view prefix, std::string_view from, const Each& each) const;
  // Keys that begin with `prefix` and are < before (empty: all), falling.
  Status ScanBackward(std::string_view prefix, std::string_view before, const Each& each) const;

  // The database as it is now, for several reads that fit each other. Its life holds back a reopening after
  // a bad disk, and the space of what is deleted meanwhile: keep it briefly. kUnavailable or the disk's error
  // when the database is closed.
  class View {
   public:
    View(View&& other) noexcept;
    ~View();
    Result<std::string> Get(std::string_view key) const;
    Status Scan(std::string_view prefix, std::string_view from, const Each& each) const;
    Status ScanBackward(std::string_view prefix, std::string_view before, const Each& each) const;
    // Changes when the database was closed and opened again: what WriteUnlogged wrote may be gone then.
    uint64_t generation() const { return generation_; }
    // What is read from now on is hardly read again: it takes no room in the block cache.
    void ReadOnce(bool once = true) { once_ = once; }

   private:
    friend class Database;
    View() = default;
    std::shared_lock<std::shared_mutex> lock_;
    rocksdb::DB* db_ = nullptr;
    const rocksdb::Snapshot* snapshot_ = nullptr;
    uint64_t generation_ = 0;
    bool once_ = false;
  };
  Result<View> Look() const;
  uint64_t generation() const { return generation_; }

  // Writes past the log: a crash undoes it, whole, unless Flush() came between. For changes that put into
  // another form what is durable already. Fails at once while the database is ailing.
  Status WriteUnlogged(Batch& batch);
  // Makes all that was written durable in table files; the log is freed.
  Status Flush();
  // Gives back the space of what is deleted in a range. Files of the last level are rewritten only where
  // `all` says so: they hold what a reader still looked at when they were written.
  Status Compact(std::string_view begin, std::string_view end, bool all = false);
  // Ends a Compact that is at work soon, with an error, and all later ones: what is left to do waits for the
  // next life.
  void StopCompacting() { closing_ = true; }
  // Bytes of table files that hold keys of the range, about; what is deleted and not given back yet counts.
  uint64_t FileBytesOf(std::string_view begin, std::string_view end) const;
  // A copy of all that was written, in a new folder; its bytes.
  Result<uint64_t> CopyInto(const std::string& folder);

  Status health() const;
  uint64_t wal_bytes() const;
  uint64_t file_bytes() const;
  uint64_t live_file_bytes() const;  // without those that only wait for a reader to end
  // In memory: blocks of files that may be read again, indexes and filters of open files, what is not in
  // files yet.
  uint64_t cache_bytes() const;
  uint64_t index_bytes() const;
  uint64_t buffer_bytes() const;
  uint64_t IntProperty(const std::string& name) const;
  uint64_t synced_writes() const { return synced_writes_; }

 private:
  explicit Database(const StoreOptions& options);
  Status OpenNow();
  Status Revive();
  Status ResumeOrReopen();

  const StoreOptions options_;
  mutable std::shared_mutex db_mutex_;  // shared: db_ is in use; exclusive: it is being closed and opened
  std::unique_ptr<rocksdb::DB> db_;     // null after a failed reopening
  mutable std::mutex health_mutex_;     // guards health_
  Status health_;
  std::atomic<uint64_t> synced_writes_{0};
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> closing_{false};
};

}  // namespace foreshock::store
