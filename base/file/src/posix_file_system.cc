#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "foreshock/base/file.h"

namespace foreshock {
namespace {

Code CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return Code::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Code::kResourceExhausted;
    case EWOULDBLOCK:
      return Code::kFailedPrecondition;
    default:
      return Code::kIo;
  }
}

Status ErrnoStatus(std::string_view call, const std::string& path) {
  const int error = errno;
  return Status(CodeOf(error), std::string(call) + " " + path + ": " + std::system_category().message(error));
}

// Owns a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

Status WriteAll(int fd, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus("write", path);
    }
    data.remove_prefix(static_cast<size_t>(n));
  }
  return OkStatus();
}

class PosixAppendFile final : public AppendFile {
 public:
  PosixAppendFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  Status Append(std::string_view data) override { return WriteAll(fd_.get(), data, path_); }

  Status Sync() override {
    while (::fdatasync(fd_.get()) != 0) {
      if (errno != EINTR) return ErrnoStatus("fdatasync", path_);
    }
    return OkStatus();
  }

  Status Close() override {
    if (::close(fd_.release()) != 0) return ErrnoStatus("close", path_);
    return OkStatus();
  }

 private:
  Descriptor fd_;
  const std::string path_;
};

class PosixReadFile final : public ReadFile {
 public:
  PosixReadFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  Status ReadAt(uint64_t offset, size_t bytes, std::string* out) const override {
    out->resize(bytes);
    size_t done = 0;
    while (done < bytes) {
      const ssize_t n =
          ::pread(fd_.get(), out->data() + done, bytes - done, static_cast<off_t>(offset + done));
      if (n < 0) {
        if (errno == EINTR) continue;
        return ErrnoStatus("read", path_);
      }
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    out->resize(done);
    return OkStatus();
  }

  Result<uint64_t> Size() const override {
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus("stat", path_);
    return static_cast<uint64_t>(info.st_size);
  }

 private:
  Descriptor fd_;
  const std::string path_;
};

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(int fd) : fd_(fd) {}

 private:
  Descriptor fd_;
};

class PosixFiles final : public FileSystem {
 public:
  Result<std::unique_ptr<AppendFile>> OpenAppend(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) return ErrnoStatus("open", path);
    return std::unique_ptr<AppendFile>(std::make_unique<PosixAppendFile>(fd, path));
  }

  Result<std::unique_ptr<ReadFile>> OpenRead(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ErrnoStatus("open", path);
    return std::unique_ptr<ReadFile>(std::make_unique<PosixReadFile>(fd, path));
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return ErrnoStatus("rename", from + " to " + to);
    return OkStatus();
  }

  Status Remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0) return OkStatus();
    if ((errno == EISDIR || errno == EPERM) && IsDir(path)) {
      if (::rmdir(path.c_str()) == 0) return OkStatus();
    }
    return ErrnoStatus("remove", path);
  }

  Status CreateDir(const std::string& path) override {
    if (::mkdir(path.c_str(), 0755) != 0) return ErrnoStatus("mkdir", path);
    return OkStatus();
  }

  Result<std::vector<std::string>> List(const std::string& path) override {
    DIR* dir = ::opendir(path.c_str());
    if (dir == nullptr) return ErrnoStatus("opendir", path);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    const Status status = errno == 0 ? OkStatus() : ErrnoStatus("readdir", path);
    ::closedir(dir);
    if (!status.ok()) return status;
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<uint64_t> Size(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return ErrnoStatus("stat", path);
    return static_cast<uint64_t>(info.st_size);
  }

  bool IsDir(const std::string& path) override {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  Status Truncate(const std::string& path, uint64_t bytes) override {
    if (::truncate(path.c_str(), static_cast<off_t>(bytes)) != 0) return ErrnoStatus("truncate", path);
    return OkStatus();
  }

  Status SyncDir(const std::string& path) override {
    const Descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) return ErrnoStatus("open", path);
    while (::fsync(fd.get()) != 0) {
      if (errno == EINTR) continue;
      // Some file systems cannot sync a directory; there is nothing more to be done there.
      if (errno == EINVAL) return OkStatus();
      return ErrnoStatus("fsync", path);
    }
    return OkStatus();
  }

  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override {
    Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (fd.get() < 0) return ErrnoStatus("open", path);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return LockHeld(fd.get(), path);
    // The holder's process id helps whoever finds the lock held. It is not the lock.
    if (::ftruncate(fd.get(), 0) == 0)
      WriteAll(fd.get(), std::to_string(::getpid()) + "\n", path).IgnoreError();
    return std::unique_ptr<FileLock>(std::make_unique<PosixFileLock>(fd.release()));
  }

  Result<uint64_t> FreeBytes(const std::string& path) override {
    struct statvfs info {};
    if (::statvfs(path.c_str(), &info) != 0) return ErrnoStatus("statvfs", path);
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }

 private:
  static Status LockHeld(int fd, const std::string& path) {
    if (errno != EWOULDBLOCK) return ErrnoStatus("lock", path);
    char holder[32] = {};
    const ssize_t n = ::pread(fd, holder, sizeof holder - 1, 0);
    std::string_view pid(holder, n > 0 ? static_cast<size_t>(n) : 0);
    while (!pid.empty() && pid.back() == '\n') pid.remove_suffix(1);
    return Status(Code::kFailedPrecondition, "lock " + path + ": held by process " + std::string(pid));
  }
};

}  // namespace

FileSystem& PosixFileSystem() {
  static PosixFiles files;
  return files;
}

}  // namespace foreshock
