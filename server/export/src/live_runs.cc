#include "live_runs.h"

#include <algorithm>
#include <limits>

namespace foreshock::exporter {
namespace {

constexpr double kNanos = 1e9;

bool Ended(const store::AttemptInfo& attempt) {
  const auto state = store::StateOf(attempt, 0, std::numeric_limits<int64_t>::max());
  return state == store::RunState::kFinished || state == store::RunState::kFailed ||
         state == store::RunState::kStopped;
}

}  // namespace

void LiveRuns::OnSource(const store::Origin& origin, const wire::Hello&) {
  std::lock_guard lock(mutex_);
  const auto it = runs_.find(origin.run);
  if (it != runs_.end()) it->second.ended_nanos = 0;
}

void LiveRuns::OnMergedFrame(const store::Origin& origin, const std::shared_ptr<const wire::Frame>& frame,
                             bool amended) {
  std::lock_guard lock(mutex_);
  LiveRun& run = runs_[origin.run];
  if (amended && frame->step < run.step) return;
  if (run.attempt != origin.attempt) {
    run = LiveRun();
    run.run = origin.run;
    run.attempt = origin.attempt;
  }
  run.step = frame->step;
  run.last_nanos = options_.clock->MonotonicNanos();
  for (const wire::Series& series : frame->series) {
    if (series.signal < kSignalIds && run.last[series.signal] != frame) run.last[series.signal] = frame;
  }
}

void LiveRuns::OnGoodbye(const store::Origin& origin, const std::shared_ptr<const wire::Goodbye>&) {
  const auto attempt = options_.store->GetAttempt(origin.run, origin.attempt);
  if (!attempt.ok() || !Ended(*attempt)) return;
  std::lock_guard lock(mutex_);
  const auto it = runs_.find(origin.run);
  if (it == runs_.end() || it->second.attempt != origin.attempt) return;
  it->second.ended_nanos = std::max<int64_t>(options_.clock->MonotonicNanos(), 1);
}

void LiveRuns::OnRunDeleted(const std::string& run) {
  std::lock_guard lock(mutex_);
  runs_.erase(run);
}

std::vector<LiveRun> LiveRuns::Snapshot(size_t* left_out) {
  const int64_t now = options_.clock->MonotonicNanos();
  const auto age = [now](int64_t since) { return static_cast<double>(now - since) / kNanos; };
  std::vector<LiveRun> all;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(runs_, [&](const auto& item) {
      const LiveRun& run = item.second;
      return (run.ended_nanos != 0 && age(run.ended_nanos) >= options_.finished_leave_seconds) ||
             age(run.last_nanos) >= options_.silent_leave_seconds;
    });
    for (const auto& [name, run] : runs_) all.push_back(run);
  }
  *left_out = all.size() - std::min(all.size(), options_.max_runs);
  if (*left_out > 0) {
    std::sort(all.begin(), all.end(),
              [](const LiveRun& a, const LiveRun& b) { return a.last_nanos > b.last_nanos; });
    all.resize(options_.max_runs);
    std::sort(all.begin(), all.end(), [](const LiveRun& a, const LiveRun& b) { return a.run < b.run; });
  }
  return all;
}

}  // namespace foreshock::exporter
