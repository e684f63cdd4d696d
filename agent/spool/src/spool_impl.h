// The state behind Spool, shared by spool.cc and spool_reader.cc.
//
// Group commit: the first thread that appends while nobody commits becomes the leader; it takes everything
// that waits as one group, writes and syncs it without the lock, and tells the others. Meanwhile the next
// group gathers.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "ack_file.h"
#include "foreshock/agent/spool.h"
#include "foreshock/base/append_log.h"
#include "index.h"

namespace foreshock::agent {

// One Append call that waits for its commit. The items stay alive with the caller.
struct Batch {
  std::shared_ptr<Source> source;
  std::span<const SpoolItem> items;
  uint64_t bytes = 0;
  bool done = false;
  Status status;
};

// A record written by the group in progress, to be indexed once it is durable.
struct Written {
  std::shared_ptr<Source> source;
  uint32_t id;
  uint64_t seq;
  uint64_t offset;
  uint64_t bytes;
};

struct Spool::Impl {
  Impl(FileSystem& files, std::string directory, const SpoolOptions& opts)
      : fs(files), dir(std::move(directory)), options(opts) {}

  std::string SegmentPath(uint64_t number) const;

  Status SyncAll();

  // spool.cc: committing. Called by the leader, without the lock, while `committing` is true.
  Status WriteGroup(const std::vector<Batch*>& group, std::vector<Written>* written, uint64_t* repeated);
  Status WriteBatch(const Batch& batch, std::map<const Source*, uint64_t>* last_seqs,
                    std::vector<Written>* written, uint64_t* repeated);
  Result<uint32_t> Declare(const std::shared_ptr<Source>& source);
  Status OpenActive();
  void AbandonActive();
  void WriteIndexFile(uint64_t number);
  // The leader's round. Holds `lock` at entry and exit.
  void Commit(std::unique_lock<std::mutex>& lock);
  void FinishGroup(const std::vector<Batch*>& group, const Status& status,
                   const std::vector<Written>& written, uint64_t repeated);

  // With the lock held: whether `source` may take so many bytes more.
  Status CheckRoom(const Source& source, uint64_t bytes);
  // With the lock held: takes acknowledged ranges out, gives the numbers of segments to delete.
  void DropAcknowledged(Source& source, std::vector<uint64_t>* dead);
  void CollectDead(std::vector<uint64_t>* dead);
  void ForgetIfIdle(const std::shared_ptr<Source>& source);
  void DeleteSegments(const std::vector<uint64_t>& dead);
  void PersistAcks(std::unique_lock<std::mutex>& lock, bool force);
  // The positions of sources that are known no more, the newest kMaxPositions.
  void RememberPosition(const SourceKey& key, uint64_t seq);

  FileSystem& fs;
  const std::string dir;
  const SpoolOptions options;
  std::unique_ptr<FileLock> file_lock;

  // The leader's alone (guarded by `committing`).
  std::unique_ptr<AppendLogWriter> writer;  // of the active segment, null when there is none
  // Ids in the active segment. An id stays a source's while the segment is active, also when the group that
  // declared it failed.
  struct Declared {
    uint32_t id = 0;
    bool written = false;
    uint64_t hello_version = 0;
  };
  std::map<std::shared_ptr<Source>, Declared> declared;
  uint32_t next_id = 1;
  std::string scratch;

  mutable std::mutex mutex;  // guards everything below
  Index index;
  std::vector<Batch*> waiting;
  bool committing = false;
  uint64_t active = 0;          // number of the active segment, 0: none
  uint64_t last_number = 0;     // of the newest segment ever
  uint64_t reserved_bytes = 0;  // of batches that wait or are being written
  uint64_t generation = 1;      // of the set of sources
  uint64_t wakes = 0;
  AckedSeqs positions;                   // of forgotten sources
  std::deque<SourceKey> position_order;  // oldest first; may name some that came back
  bool acks_dirty = false;
  bool acks_writing = false;
  int64_t acks_written_ns = 0;
  SpoolStats counters;

  mutable std::condition_variable committed;  // a group is done
  mutable std::condition_variable readable;   // records became durable, a source is gone, or Wake
  mutable std::condition_variable changed;    // sources or space
  std::condition_variable acks_written;       // nobody writes them any more
};

}  // namespace foreshock::agent
