#include "power_cut_env.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <cstring>
#include <shared_mutex>

namespace foreshock::store::test {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus ToRocks(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return IOStatus::OK();
    case Code::kNotFound:
      return IOStatus::PathNotFound(status.message());
    case Code::kResourceExhausted:
      return IOStatus::NoSpace(status.message());
    default:
      return IOStatus::IOError(status.message());
  }
}

class Reader : public rocksdb::FSRandomAccessFile {
 public:
  explicit Reader(std::unique_ptr<ReadFile> file) : file_(std::move(file)) {}
  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    std::string bytes;
    const Status status = file_->ReadAt(offset, n, &bytes);
    if (!status.ok()) return ToRocks(status);
    std::memcpy(scratch, bytes.data(), bytes.size());
    *result = Slice(scratch, bytes.size());
    return IOStatus::OK();
  }

 private:
  const std::unique_ptr<ReadFile> file_;
};

class SequentialReader : public rocksdb::FSSequentialFile {
 public:
  explicit SequentialReader(std::unique_ptr<ReadFile> file) : file_(std::move(file)) {}
  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* dbg) override {
    const IOStatus status = file_.Read(offset_, n, options, result, scratch, dbg);
    if (status.ok()) offset_ += result->size();
    return status;
  }
  IOStatus Skip(uint64_t n) override {
    offset_ += n;
    return IOStatus::OK();
  }

 private:
  Reader file_;
  uint64_t offset_ = 0;
};

class Writer : public rocksdb::FSWritableFile {
 public:
  explicit Writer(std::unique_ptr<AppendFile> file, uint64_t size) : file_(std::move(file)), size_(size) {}
  using rocksdb::FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    const Status status = file_->Append({data.data(), data.size()});
    if (status.ok()) size_ += data.size();
    return ToRocks(status);
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return ToRocks(file_->Sync()); }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return ToRocks(file_->Close()); }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return size_; }

 private:
  const std::unique_ptr<AppendFile> file_;
  uint64_t size_;
};

class Directory : public rocksdb::FSDirectory {
 public:
  Directory(PowerCutFileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}
  // After a power cut the entries it could still see are durable anyway.
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return ToRocks(files_.SyncDir(path_)); }

 private:
  PowerCutFileSystem& files_;
  const std::string path_;
};

struct Lock : rocksdb::FileLock {
  std::unique_ptr<foreshock::FileLock> held;
};

struct LifeLine {
  std::shared_mutex mutex;  // shared: something is being done; exclusive: dying
  bool dead = false;
};

class PowerCutRocksFileSystem : public rocksdb::FileSystem {
 public:
  PowerCutRocksFileSystem(PowerCutFileSystem& files, std::shared_ptr<LifeLine> life)
      : files_(files), life_(std::move(life)) {}
  const char* Name() const override { return "PowerCutFileSystem"; }

  IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>* out, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    auto file = files_.OpenRead(path);
    if (!file.ok()) return ToRocks(file.status());
    *out = std::make_unique<SequentialReader>(std::move(file).value());
    return IOStatus::OK();
  }
  IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions&,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* out, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    auto file = files_.OpenRead(path);
    if (!file.ok()) return ToRocks(file.status());
    *out = std::make_unique<Reader>(std::move(file).value());
    return IOStatus::OK();
  }
  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions&,
                           std::unique_ptr<rocksdb::FSWritableFile>* out, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    files_.Remove(path).IgnoreError();
    return OpenForAppend(path, out);
  }
  IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions&,
                              std::unique_ptr<rocksdb::FSWritableFile>* out, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    return OpenForAppend(path, out);
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions&, std::unique_ptr<rocksdb::FSDirectory>* out,
                        IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    *out = std::make_unique<Directory>(files_, path);
    return IOStatus::OK();
  }
  IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    if (files_.IsDir(path)) return IOStatus::OK();
    const auto size = files_.Size(path);
    return size.ok() ? IOStatus::OK() : IOStatus::NotFound(path);
  }
  IOStatus GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* out,
                       IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    auto names = files_.List(path);
    if (!names.ok()) return ToRocks(names.status());
    *out = std::move(names).value();
    return IOStatus::OK();
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    return ToRocks(files_.Remove(path));
  }
  IOStatus Truncate(const std::string& path, size_t size, const IOOptions&, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    return ToRocks(files_.Truncate(path, size));
  }
  IOStatus CreateDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    return ToRocks(files_.CreateDir(path));
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    if (files_.IsDir(path)) return IOStatus::OK();
    return ToRocks(files_.CreateDir(path));
  }
  IOStatus DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    return ToRocks(files_.Remove(path));
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions&, uint64_t* out, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    const auto size = files_.Size(path);
    if (!size.ok()) return ToRocks(size.status());
    *out = *size;
    return IOStatus::OK();
  }
  IOStatus GetFileModificationTime(const std::string&, const IOOptions&, uint64_t* out,
                                   IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    *out = 0;
    return IOStatus::OK();
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                      IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    return ToRocks(files_.Rename(from, to));
  }
  IOStatus LockFile(const std::string& path, const IOOptions&, rocksdb::FileLock** out,
                    IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    auto held = files_.Lock(path);
    if (!held.ok()) return ToRocks(held.status());
    auto* lock = new Lock;
    lock->held = std::move(held).value();
    *out = lock;
    return IOStatus::OK();
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    delete static_cast<Lock*>(lock);
    return IOStatus::OK();
  }
  IOStatus GetTestDirectory(const IOOptions&, std::string* path, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    path->assign(1, '/');
    return IOStatus::OK();
  }
  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* out,
                           IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    *out = path;
    return IOStatus::OK();
  }
  IOStatus IsDirectory(const std::string& path, const IOOptions&, bool* out, IODebugContext*) override {
    const std::shared_lock alive(life_->mutex);
    if (life_->dead) return Dead();
    *out = files_.IsDir(path);
    return IOStatus::OK();
  }

 private:
  static IOStatus Dead() { return IOStatus::IOError("this process lost its power"); }
  IOStatus OpenForAppend(const std::string& path, std::unique_ptr<rocksdb::FSWritableFile>* out) {
    auto file = files_.OpenAppend(path);
    if (!file.ok()) return ToRocks(file.status());
    const auto size = files_.Size(path);
    *out = std::make_unique<Writer>(std::move(file).value(), size.ok() ? *size : 0);
    return IOStatus::OK();
  }

  PowerCutFileSystem& files_;
  const std::shared_ptr<LifeLine> life_;
};

}  // namespace

struct PowerCutEnv::Life : LifeLine {};

PowerCutEnv::PowerCutEnv(PowerCutFileSystem& files)
    : life_(std::make_shared<Life>()),
      env_(rocksdb::NewCompositeEnv(std::make_shared<PowerCutRocksFileSystem>(files, life_))) {}

PowerCutEnv::~PowerCutEnv() = default;

void PowerCutEnv::Die() {
  const std::unique_lock dying(life_->mutex);
  life_->dead = true;
}

}  // namespace foreshock::store::test
