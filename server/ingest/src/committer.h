// Committer: the thread that makes records of all streams durable together and acknowledges them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/server/ingest/ingest.h"
#include "queue_shares.h"
#include "stream_end.h"

namespace foreshock::ingest {

struct Counters {
  std::atomic<uint64_t> streams{0}, records{0}, bytes{0}, values{0}, duplicates{0}, quarantined{0},
      unreadable{0}, refused_hellos{0}, refused_runs{0}, commits{0}, failed_commits{0}, overloads{0},
      share_waits{0};
};

struct QueuedRecord {
  store::Append append;
  std::shared_ptr<StreamEnd> end;
  size_t cost = 0;      // of memory, while it is queued
  uint64_t values = 0;  // single measurements
};

class Committer {
 public:
  Committer(store::Store& store, const Clock& clock, const IngestOptions& options, Counters& counters);
  // Commits what is queued, once; what the store refuses then is lost to this process (never acknowledged).
  ~Committer();

  // kUnavailable, and the record is not taken: no room within max_wait_for_room, or at once while the store
  // is ailing and no room is left.
  Status Push(QueuedRecord record);
  Status health() const;
  uint64_t queued_bytes() const;

 private:
  void Run();
  std::vector<QueuedRecord> TakeBatch();
  bool Commit(std::vector<QueuedRecord>& batch);
  void Acknowledge(std::vector<QueuedRecord>& batch, const std::vector<store::AppendOutcome>& outcomes);
  void SetHealth(const Status& status);

  store::Store& store_;
  const Clock& clock_;
  const IngestOptions options_;
  Counters& counters_;
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable not_empty_, not_full_, stop_;
  std::deque<QueuedRecord> queue_;
  QueueShares shares_;  // of what is queued, with the batch in hand
  Status health_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace foreshock::ingest
