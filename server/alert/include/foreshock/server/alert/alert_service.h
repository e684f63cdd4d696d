// Judges every run as its durable history grows, and keeps what came of it.
//
// One AlertEngine per (run, attempt) reads the merged frames and events that the store tells of. Alerts and
// the engines' states are written to the store together before anyone hears of them, so that after a crash
// nothing fires twice and nothing is lost: an engine is rebuilt by reading the attempt's history again,
// silently up to the state that was saved (of a long one a bounded part, RebuildOptions), and judging all
// that follows.
//
// The way an attempt ends:
//   Goodbye finished, stopped   its open alerts resolve, "run finished" or "run stopped"
//   Goodbye failed              its open alerts stay for `failed_hold_seconds`: somebody has to look
//   a newer attempt             they resolve once this one has been quiet for `supersede_after_seconds`
//   silence                     the rule `stalled` fires; after `abandon_after_seconds` all resolve
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/alert_core/alert.h"
#include "foreshock/server/detect/detector.h"
#include "foreshock/server/store/store.h"

namespace foreshock::alert {

// An alert that has fired, and when.
struct AlertRecord {
  Alert alert;                  // state firing or resolved
  std::string last_checkpoint;  // path, as the trainer told it, of alert.last_checkpoint_step
  std::map<std::string, std::string> run_labels;  // as the trainer gave them; those of the firing to the end
  int64_t fired_unix_ns = 0;
  int64_t resolved_unix_ns = 0;  // 0: still firing
  std::string resolved_because;  // empty: the signals calmed down. "run finished", "newer attempt", ...
};

// The run's labels, and over them the user's rule's.
std::map<std::string, std::string> AllLabels(const AlertRecord& record);

class AlertListener {
 public:
  virtual ~AlertListener() = default;
  // On the service's thread, one call at a time, after the alert is in the store. Return soon; do not
  // subscribe or unsubscribe from within.
  virtual void OnAlert(const AlertRecord& record) = 0;
};

// What of a long history is read to rebuild an engine's baselines, in steps: all of its begin and its end,
// and of what lies between equal blocks at equal distances. A history that is no longer than this is read
// whole.
struct RebuildOptions {
  int64_t head_steps = 5'000;
  int64_t tail_steps = 50'000;
  int64_t blocks = 2'000;
  int64_t block_steps = 20;  // more than two sampling intervals, so that a block holds signals of heads
  int64_t most_steps() const { return head_steps + tail_steps + blocks * block_steps; }
};

struct AlertOptions {
  // Hears everything, from what is judged first at the start on. Not owned, must outlive the service.
  AlertListener* listener = nullptr;
  detect::DetectorOptions detector;
  // What waits to be judged, in records and in memory of their frames. Beyond it the service reads from the
  // store what it missed.
  size_t queue_capacity = 8192;
  size_t queue_bytes = 32u << 20;
  std::chrono::milliseconds tick_interval{10'000};  // how often silence is measured
  std::chrono::milliseconds save_interval{60'000};  // engines' states without news; less: shorter rebuilds
  RebuildOptions rebuild;
  double failed_hold_seconds = 3600;
  double supersede_after_seconds = 60;
  double abandon_after_seconds = 86'400;
};

// Thread-safe.
class AlertService {
 public:
  // Alerts that were firing are there at once; engines are rebuilt on the service's thread. `store` and
  // `clock` must outlive the service. Fails where the store cannot be read.
  static Result<std::unique_ptr<AlertService>> Start(const AlertOptions& options, store::Store* store,
                                                     const Clock* clock);
  virtual ~AlertService() = default;  // saves the engines' states and stops

  // Firing and resolved ones, newest first. kNotFound when there is no such run.
  virtual Result<std::vector<AlertRecord>> OfRun(const std::string& run) const = 0;
  virtual Result<std::vector<AlertRecord>> All() const = 0;
  // From memory, newest first.
  virtual std::vector<AlertRecord> Firing() const = 0;

  // The listener (not owned) hears of every firing and resolved alert from now on, until the result dies,
  // which waits for a running call.
  virtual std::unique_ptr<store::Subscription> Subscribe(AlertListener* listener) = 0;

  // Replaces the user's rules of every run, after what is queued; returns when done. What rules that are gone
  // or changed had open resolves, "rule removed or changed". Not from within a listener.
  virtual void SetUserRules(const detect::UserRulesPtr& rules) = 0;

  // Returns when everything that the store had told before the call is judged.
  virtual void Flush() = 0;
  // Measures silence now, as the service does by itself every tick_interval; returns when done.
  virtual void Tick() = 0;

  struct Counters {
    uint64_t steps = 0;  // judged
    uint64_t fired = 0;
    uint64_t resolved = 0;
    uint64_t catch_ups = 0;      // times the queue was full and an attempt was read from the store instead
    uint64_t save_failures = 0;  // writes to the store that failed; they are tried again
    uint64_t open_attempts = 0;
    uint64_t queued = 0;
  };
  virtual Counters counters() const = 0;
};

}  // namespace foreshock::alert
