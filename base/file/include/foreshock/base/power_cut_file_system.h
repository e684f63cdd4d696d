// PowerCutFileSystem: files in memory whose power can be cut, for tests of durability.
//
// kill -9 proves nothing about fsync, because the kernel keeps what was written. Here PowerCut() takes away
// every byte and every directory entry that no completed Sync or SyncDir covers, so that code which forgets
// one loses data in a test. Every durability test wants a canary: run it with SetIgnoreSyncs(true) and see it
// fail.
//
// Handles opened before a power cut fail afterwards, locks are gone: reopen, as a restarted process would.
// Thread-safe. "/" and "." exist from the start and are the same directory.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "foreshock/base/file.h"

namespace foreshock {

struct PowerCutOptions {
  // false: the worst case, everything unsynced is gone. true: of each file's unsynced appended bytes a random
  // prefix stays (a torn tail), at times followed by zero bytes (blocks allocated and never written), and of
  // each directory's unsynced changes a random number of the oldest stay.
  bool keep_some = false;
  uint64_t seed = 0;
  bool zero_tails = true;  // false: as file systems leave files that write data before sizes (ext4's default)
};

class PowerCutFileSystem final : public FileSystem {
 public:
  PowerCutFileSystem();
  ~PowerCutFileSystem() override;

  void PowerCut(const PowerCutOptions& options = {});

  // Faults. Syncs are reported as done but cover nothing: a lying disk, and the canary of durability tests.
  void SetIgnoreSyncs(bool ignore);
  // The next `count` calls of Sync and SyncDir fail with kIo.
  void FailSyncs(int count);
  // Every change fails with kPermissionDenied, "Read-only file system".
  void SetReadOnly(bool read_only);
  // All files together hold at most this many bytes; an Append past it writes what fits and fails with
  // kResourceExhausted, "No space left on device".
  void SetCapacity(uint64_t bytes);
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  uint64_t used_bytes() const;
  // Sync and SyncDir calls so far, failed ones included.
  uint64_t sync_calls() const;
  // Turns over the bits of one byte of a file, durably: a rotten disk. The offset must exist.
  Status CorruptByte(const std::string& path, uint64_t offset, uint8_t xor_mask);

  Result<std::unique_ptr<AppendFile>> OpenAppend(const std::string& path) override;
  Result<std::unique_ptr<ReadFile>> OpenRead(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status CreateDir(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& path) override;
  Result<uint64_t> Size(const std::string& path) override;
  bool IsDir(const std::string& path) override;
  Status Truncate(const std::string& path, uint64_t bytes) override;
  Status SyncDir(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> Lock(const std::string& path) override;
  Result<uint64_t> FreeBytes(const std::string& path) override;

  struct State;  // private to the implementation; shared with the handles, which may outlive this object

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace foreshock
