// Upkeep: keeps the history within bounds, and copies it. Deletes runs by hand, by age and by size; writes
// backups.
//
// By age: a run of which nothing came for `keep_days` goes. By size: while the folder is larger than
// `keep_bytes`, the run that has been quiet the longest goes; then its space has to come back before the next
// one may. Neither touches a run that is going on, one that was heard within `quiet_seconds`, or one to which
// a process gave the label `keep`. What is deleted is logged with the reason.
//
// Nothing goes by itself in the first `quiet_seconds` of this object's life (agents may still hold what a run
// sent while the server was away), nor for so long after the wall clock jumped against the monotonic one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/store/store.h"

namespace foreshock::upkeep {

struct UpkeepOptions {
  store::Store* store = nullptr;  // this and the clock: not owned, must outlive the Upkeep
  const Clock* clock = nullptr;
  double keep_days = 0;     // 0: for ever
  uint64_t keep_bytes = 0;  // 0: no limit
  double quiet_seconds = 86'400;
  double silent_after_seconds = 120;  // when a run is not going on any more (store::StateOf)
  std::string backup_folder;          // empty: no backups
  std::chrono::milliseconds tick{60'000};
};

struct BackupInfo {
  std::string folder;
  uint64_t bytes = 0;
};

// Thread-safe. `issuer` is who asks, for the log; empty: "operator".
class Upkeep {
 public:
  static std::unique_ptr<Upkeep> Start(const UpkeepOptions& options);
  virtual ~Upkeep() = default;

  // kNotFound without such a run; kFailedPrecondition without `force` when one of its attempts is going on or
  // was heard within the hour without a Goodbye. What its trainer sends afterwards is refused until it says
  // Hello again.
  virtual Status DeleteRun(const std::string& run, bool force, const std::string& issuer) = 0;

  // Copies the history as it is now into backup_folder/name, which must not be there yet. Readable by
  // foreshockd and foreshock-store; nothing pauses. One at a time. kInvalidArgument for a name that is not 1
  // to 100 of [A-Za-z0-9._-], begins with a dot or ends with ".tmp" (unfinished copies), kFailedPrecondition
  // without a backup_folder or while another is written.
  virtual Result<BackupInfo> Backup(const std::string& name, const std::string& issuer) = 0;

  // Deletes what is due, as happens by itself every `tick`.
  virtual void Sweep() = 0;

  struct Counters {
    uint64_t deleted_by_hand = 0;
    uint64_t deleted_by_age = 0;
    uint64_t deleted_by_size = 0;
    uint64_t failures = 0;     // deletions and backups that failed
    uint64_t clock_jumps = 0;  // of the wall clock, by more than a minute
    uint64_t backups = 0;      // written
    bool over_size = false;    // the folder is larger than keep_bytes and nothing may go
  };
  virtual Counters counters() const = 0;
};

}  // namespace foreshock::upkeep
