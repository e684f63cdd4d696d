// One (run, attempt) as the alert service sees it: its engine, and the events that wait for their step.
// Not thread-safe: the service's thread owns it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/alert_core/alert_engine.h"
#include "foreshock/server/store/store.h"
#include "rank_apart.h"

namespace foreshock::alert {

struct StepRange {
  int64_t from = 0, to = 0;  // inclusive
};

// The parts of first..known that a rebuild reads.
std::vector<StepRange> RebuildRanges(int64_t first, int64_t known, const RebuildOptions& options);

class Watch {
 public:
  Watch(std::string run, std::string attempt, const wire::Hello& hello,
        const detect::DetectorOptions& options);

  const std::string& run() const { return run_; }
  const std::string& attempt() const { return attempt_; }
  int64_t last_step() const { return last_step_; }

  // Before the first frame. A state that cannot be read is an error and leaves a fresh engine.
  Status Restore(const std::string& state) { return engine_.RestoreState(state); }
  std::string SaveState() const { return engine_.SaveState(); }
  std::vector<AlertEvent> SetUserRules(const detect::UserRulesPtr& rules) {
    return engine_.SetUserRules(rules);
  }
  std::vector<Alert> Open() const { return engine_.Open(); }
  std::vector<Alert> Firing() const;
  // With the last checkpoint before the first evidence, by the steps that the trainer told: one of this
  // attempt, else one of the attempts that it goes on from.
  AlertRecord ToRecord(Alert alert) const;
  // Adds the rank that a firing alert is about, where there is one: looked for in the store once an alert.
  void TellRankOf(const store::Store& store, Alert* alert);
  // Checkpoints of earlier attempts, by step; those up to this attempt's first step count.
  void SetEarlierCheckpoints(std::map<int64_t, std::string> earlier) {
    earlier_checkpoints_ = std::move(earlier);
  }

  // Each record counts once, also when it is told twice (live and from the store).
  void AddEvent(uint32_t rank, uint32_t incarnation, const wire::Event& event);
  std::vector<AlertEvent> AddFrame(const wire::Frame& frame);
  // Something that no record tells: judged with the next frame.
  void AddNews(detect::StepEvent event) { at_next_frame_.push_back(std::move(event)); }
  std::vector<AlertEvent> Tick(double seconds_since_last_frame) {
    return engine_.Tick(seconds_since_last_frame);
  }

  // Reads from the store what is newer than what this has seen. `take` gets what fires or resolves, and ends
  // it by false.
  template <typename Take>
  Status CatchUp(const store::Store& store, const RebuildOptions& rebuild, Take take);

  bool reopened = false;         // a process came after the attempt had been closed
  bool ended = false;            // all ranks said goodbye
  bool dirty = false;            // steps were judged since the state was saved
  int64_t last_frame_nanos = 0;  // monotonic clock, when the last frame was judged
  std::string rivals;            // what was told last of processes that send as one rank; empty: none do

 private:
  // What CatchUp reads, by rising step.
  std::vector<StepRange> Missing(const store::Store& store, const RebuildOptions& rebuild) const;

  std::string run_, attempt_;
  std::map<std::string, std::string> labels_;
  AlertEngine engine_;
  std::multimap<int64_t, wire::Event> waiting_;              // by step
  std::set<std::tuple<uint32_t, uint32_t, uint64_t>> seen_;  // rank, incarnation and seq of events
  std::map<int64_t, std::string> checkpoints_;               // by step; the newest kMaxCheckpoints
  std::map<int64_t, std::string> earlier_checkpoints_;
  std::vector<detect::StepEvent> at_next_frame_;
  detect::StepSample sample_;                                    // of the last frame; kept for its memory
  int64_t first_step_ = -1, last_step_ = -1;                     // of frames
  std::map<std::string, std::optional<RankApart>> ranks_apart_;  // by alert id, of those that fire
};

template <typename Take>
Status Watch::CatchUp(const store::Store& store, const RebuildOptions& rebuild, Take take) {
  auto events = store.ReadEvents(run_, attempt_);
  if (!events.ok()) return events.status();
  for (const store::StoredEvent& stored : *events) AddEvent(stored.rank, stored.incarnation, stored.event);
  for (const StepRange& range : Missing(store, rebuild)) {
    store::FrameQuery query;
    query.run = run_;
    query.attempt = attempt_;
    query.from_step = range.from;
    query.to_step = range.to;
    bool go_on = true;
    FS_RETURN_IF_ERROR(store.ReadFrames(
        query, [&](const store::StoredFrame& stored) { return go_on = take(AddFrame(stored.frame)); }));
    if (!go_on) break;
  }
  return OkStatus();
}

}  // namespace foreshock::alert
