// The one way to files: a small interface, so that tests can cut the power (power_cut_file_system.h).
//
// Durability, which the interface states and the test implementation enforces: bytes are durable after
// File::Sync; a directory entry (a creation, rename or removal) is durable after SyncDir of its parent;
// nothing else is.
//
// Failures carry the operating system's words, e.g. "open /var/x: Permission denied", and one of the codes
// kNotFound, kAlreadyExists, kPermissionDenied (also a read-only file system), kResourceExhausted (disk or
// quota full), kFailedPrecondition (locked by another), kIo (everything else).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock {

// A file open for writing at its end. One thread at a time. Closed by the destructor, errors then ignored.
class AppendFile {
 public:
  virtual ~AppendFile() = default;
  // All of `data` or an error, after which an unknown part of it may be in the file.
  virtual Status Append(std::string_view data) = 0;
  // Makes all bytes so far durable. After a failure the state of the unsynced bytes is unknown and a later
  // success proves nothing about them: start a new file.
  virtual Status Sync() = 0;
  // Does not sync. Later calls fail.
  virtual Status Close() = 0;
};

// A file open for reading. Any number of threads.
class ReadFile {
 public:
  virtual ~ReadFile() = default;
  // Up to `bytes` bytes from `offset`; fewer only at the end of the file (none past it). Replaces *out.
  virtual Status ReadAt(uint64_t offset, size_t bytes, std::string* out) const = 0;
  virtual Result<uint64_t> Size() const = 0;
};

// Held from Lock until destroyed (or until the process dies).
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// Thread-safe. Paths are used as given.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates the file when it is missing.
  virtual Result<std::unique_ptr<AppendFile>> OpenAppend(const std::string& path) = 0;
  virtual Result<std::unique_ptr<ReadFile>> OpenRead(const std::string& path) = 0;
  // Replaces `to` atomically where it exists.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  // A file, or an empty directory.
  virtual Status Remove(const std::string& path) = 0;
  // kAlreadyExists when there is something of that name. The parent must exist.
  virtual Status CreateDir(const std::string& path) = 0;
  // Names (without path) in a directory, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> List(const std::string& path) = 0;
  virtual Result<uint64_t> Size(const std::string& path) = 0;
  virtual bool IsDir(const std::string& path) = 0;
  // Cuts the file to `bytes` (not more than its size). Durable after the file's next Sync.
  virtual Status Truncate(const std::string& path, uint64_t bytes) = 0;
  // Makes the entries of a directory durable.
  virtual Status SyncDir(const std::string& path) = 0;
  // Creates the file and locks it against other processes and other Lock calls; kFailedPrecondition when it
  // is held.
  virtual Result<std::unique_ptr<FileLock>> Lock(const std::string& path) = 0;
  // Bytes that can still be written; kUnimplemented where nobody knows.
  virtual Result<uint64_t> FreeBytes(const std::string& path) = 0;
};

// The operating system's files. One for the whole process.
FileSystem& PosixFileSystem();

// The whole file. kResourceExhausted when it is longer than max_bytes.
Result<std::string> ReadWholeFile(FileSystem& fs, const std::string& path,
                                  uint64_t max_bytes = uint64_t{1} << 30);

// The directory and its missing parents; ok when it is there already. Durable when ok.
Status CreateDirs(FileSystem& fs, const std::string& path);

// Replaces `path` by `contents` so that after a crash at any moment it holds all of the old or all of the
// new: writes PATH.tmp, syncs, renames, syncs the directory. One writer per path.
Status WriteFileAtomically(FileSystem& fs, const std::string& path, std::string_view contents);

// "a/b" for ("a", "b"); the folder part of a path, "." when it has none.
std::string JoinPath(std::string_view dir, std::string_view name);
std::string ParentPath(std::string_view path);

}  // namespace foreshock
