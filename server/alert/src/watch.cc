#include "watch.h"

#include <algorithm>

#include "foreshock/server/alert_core/frame_sample.h"

namespace foreshock::alert {
namespace {

constexpr size_t kMaxCheckpoints = 4096;

}  // namespace

std::vector<StepRange> RebuildRanges(int64_t first, int64_t known, const RebuildOptions& options) {
  if (known - first < options.most_steps()) return {{first, known}};
  std::vector<StepRange> ranges = {{first, first + options.head_steps - 1}};
  const int64_t begin = first + options.head_steps, end = known - options.tail_steps;  // of what lies between
  for (int64_t i = 0; i < options.blocks; ++i) {
    // In doubles, because steps times blocks may not fit; off by a step is no matter.
    const int64_t at =
        begin + static_cast<int64_t>(static_cast<double>(end - begin) * static_cast<double>(i) /
                                     static_cast<double>(options.blocks));
    const int64_t from = std::max(at, ranges.back().to + 1);
    ranges.push_back({from, from + options.block_steps - 1});
  }
  ranges.push_back({std::max(end, ranges.back().to) + 1, known});
  return ranges;
}

std::vector<StepRange> Watch::Missing(const store::Store& store, const RebuildOptions& rebuild) const {
  const int64_t known = engine_.known_through();
  const int64_t next = last_step_ + 1;
  if (known < next) return {{last_step_ >= 0 ? next : store::kFirstStep, store::kLastStep}};
  const auto info = store.GetAttempt(run_, attempt_);
  const int64_t first = info.ok() ? info->first_step.value_or(0) : 0;
  std::vector<StepRange> ranges = RebuildRanges(std::max(first, next), known, rebuild);
  ranges.push_back({known + 1, store::kLastStep});
  return ranges;
}

Watch::Watch(std::string run, std::string attempt, const wire::Hello& hello,
             const detect::DetectorOptions& options)
    : run_(std::move(run)),
      attempt_(std::move(attempt)),
      labels_(hello.labels),
      engine_(run_, attempt_, RunInfoOf(hello), options),
      at_next_frame_(UnmonitoredOf(hello)) {}

void Watch::AddEvent(uint32_t rank, uint32_t incarnation, const wire::Event& event) {
  if (!seen_.emplace(rank, incarnation, event.seq).second) return;
  waiting_.emplace(event.step, event);
  if (event.kind != wire::EventKind::kCheckpoint) return;
  checkpoints_[event.step] = event.detail;
  if (checkpoints_.size() > kMaxCheckpoints) checkpoints_.erase(checkpoints_.begin());
}

std::vector<Alert> Watch::Firing() const {
  std::vector<Alert> alerts = engine_.Open();
  std::erase_if(alerts, [](const Alert& alert) { return alert.state != AlertState::kFiring; });
  return alerts;
}

AlertRecord Watch::ToRecord(Alert alert) const {
  AlertRecord record;
  alert.last_checkpoint_step.reset();
  const auto take = [&](const std::map<int64_t, std::string>& from, int64_t before) {
    const auto after = from.lower_bound(before);
    if (alert.last_checkpoint_step || after == from.begin()) return;
    alert.last_checkpoint_step = std::prev(after)->first;
    record.last_checkpoint = std::prev(after)->second;
  };
  take(checkpoints_, alert.first_evidence_step);
  // The checkpoint of step t may be what this attempt began with, at t or right after it.
  take(earlier_checkpoints_, std::min(alert.first_evidence_step, first_step_ + 1));
  record.alert = std::move(alert);
  record.run_labels = labels_;
  return record;
}

void Watch::TellRankOf(const store::Store& store, Alert* alert) {
  if (alert->state == AlertState::kPending) return;
  auto it = ranks_apart_.find(alert->id);
  if (it == ranks_apart_.end()) it = ranks_apart_.emplace(alert->id, FindRankApart(store, *alert)).first;
  if (it->second) TellRank(*it->second, alert);
  if (alert->state == AlertState::kResolved) ranks_apart_.erase(it);
}

std::vector<AlertEvent> Watch::AddFrame(const wire::Frame& frame) {
  if (frame.step <= last_step_) return {};
  if (first_step_ < 0) first_step_ = frame.step;
  last_step_ = frame.step;
  sample_.Restart();
  sample_.events = std::exchange(at_next_frame_, {});
  const auto end = waiting_.upper_bound(frame.step);
  for (auto it = waiting_.begin(); it != end; ++it) alert::AddEvent(it->second, &sample_);
  waiting_.erase(waiting_.begin(), end);
  alert::AddFrame(frame, &sample_);
  dirty = true;
  return engine_.Observe(sample_);
}

}  // namespace foreshock::alert
