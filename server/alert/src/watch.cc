#include "watch.h"

#include "foreshock/server/alert_core/frame_sample.h"

namespace foreshock::alert {
namespace {

constexpr size_t kMaxCheckpoints = 4096;

}  // namespace

Watch::Watch(std::string run, std::string attempt, const wire::Hello& hello,
             const detect::DetectorOptions& options)
    : run_(std::move(run)),
      attempt_(std::move(attempt)),
      engine_(run_, attempt_, RunInfoOf(hello), options),
      at_first_step_(UnmonitoredOf(hello)) {}

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
  const auto after = checkpoints_.lower_bound(alert.first_evidence_step);
  if (after != checkpoints_.begin()) {
    alert.last_checkpoint_step = std::prev(after)->first;
    record.last_checkpoint = std::prev(after)->second;
  }
  record.alert = std::move(alert);
  return record;
}

std::vector<AlertEvent> Watch::AddFrame(const wire::Frame& frame) {
  if (frame.step <= last_step_) return {};
  last_step_ = frame.step;
  detect::StepSample sample;
  sample.events = std::exchange(at_first_step_, {});
  const auto end = waiting_.upper_bound(frame.step);
  for (auto it = waiting_.begin(); it != end; ++it) alert::AddEvent(it->second, &sample);
  waiting_.erase(waiting_.begin(), end);
  alert::AddFrame(frame, &sample);
  dirty = true;
  return engine_.Observe(sample);
}

}  // namespace foreshock::alert
