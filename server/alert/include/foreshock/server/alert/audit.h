// The trail of who did what that changes what people are told or what trainers are asked: silences,
// acknowledgements, actions by hand and by rule, and what a dry run would have done. In the store (kind
// "audit", of no run, so that a deleted run leaves its trail); docs/formats/store.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/store/store.h"

namespace foreshock::alert {

struct AuditEntry {
  int64_t time_unix_ns = 0;  // set by the log
  std::string who = {};      // a person, or "rule:NAME"
  std::string what = {};     // "silence_created", "rule_action_dry_run", ...
  std::string run = {};      // empty: of no run alone
  std::string subject = {};  // id of the alert, silence or action
  std::string detail = {};
};

// Thread-safe.
class AuditLog {
 public:
  // The newest `most` entries are kept. `store` and `clock` must outlive the log.
  static Result<std::unique_ptr<AuditLog>> Open(store::Store* store, const Clock* clock,
                                                size_t most = 10'000);

  // The entry as the store will hold it, to be written together with what it tells of.
  store::MetaEntry Prepare(AuditEntry entry);
  // Writes it by itself. What cannot be written is logged and lost: acting goes before remembering.
  void Add(AuditEntry entry);

  // Entries about one run as they are stored, oldest first; and one of another server as it was stored there:
  // kept under its time, or the next free one. False: it is here already, or older than all that is kept.
  // kInvalidArgument for what is no entry, not of `run`, or more than a day ahead.
  Result<std::vector<store::MetaEntry>> EntriesOf(const std::string& run) const;
  Result<bool> Adopt(const std::string& run, store::MetaEntry entry);

  // Newest first; an empty run means all.
  Result<std::vector<AuditEntry>> Read(std::string_view run, size_t limit) const;

 private:
  AuditLog(store::Store* store, const Clock* clock, size_t most)
      : store_(store), clock_(clock), most_(most) {}

  store::Store* const store_;
  const Clock* const clock_;
  const size_t most_;
  // A line as it is in the store; no two are of one time.
  struct Line {
    int64_t time = 0;
    size_t hash = 0;  // of its value
  };
  std::deque<Line>::iterator From(int64_t time);  // the first that is not before it

  mutable std::mutex mutex_;  // guards the next two
  std::deque<Line> lines_;    // rising
  int64_t last_time_ = 0;
};

}  // namespace foreshock::alert
