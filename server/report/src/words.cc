#include "words.h"

#include <algorithm>

#include "html.h"

namespace foreshock::report {
namespace {

std::string LogitText(std::optional<float> value) {
  return Number(value ? std::optional<double>(*value) : std::nullopt);
}

}  // namespace

std::string HeadText(int64_t layer, int64_t head) {
  if (layer < 0) return "–";
  return "layer " + std::to_string(layer) + (head < 0 ? "" : ", head " + std::to_string(head));
}

std::string StateName(store::RunState state) {
  switch (state) {
    case store::RunState::kRunning:
      return "running";
    case store::RunState::kFinished:
      return "finished";
    case store::RunState::kFailed:
      return "failed";
    case store::RunState::kStopped:
      return "stopped";
    case store::RunState::kSilent:
      return "silent";
  }
  return "unknown";
}

std::string StateName(v1::ActionState state) {
  switch (state) {
    case v1::ACTION_STATE_PROPOSED:
      return "proposed";
    case v1::ACTION_STATE_DELIVERED:
      return "delivered";
    case v1::ACTION_STATE_TAKEN:
      return "taken";
    case v1::ACTION_STATE_REFUSED:
      return "refused";
    case v1::ACTION_STATE_EXPIRED:
      return "expired";
    case v1::ACTION_STATE_EFFECTIVE:
      return "effective";
    case v1::ACTION_STATE_NO_EFFECT:
      return "no effect";
    case v1::ACTION_STATE_COMMITTED:
      return "committed";
    case v1::ACTION_STATE_WITHDRAWN:
      return "withdrawn";
    case v1::ACTION_STATE_ACKNOWLEDGED:
      return "acknowledged";
    default:
      return "unknown";
  }
}

std::string EffectText(const v1::ActionRecord& record) {
  const auto logit = [](bool has, float value) {
    return LogitText(has ? std::optional(value) : std::nullopt);
  };
  return logit(record.has_logit_before(), record.logit_before()) + " → " +
         logit(record.has_logit_after(), record.logit_after());
}

std::string EffectText(const wire::Event& guard) {
  return LogitText(guard.logit_before) + " → " + LogitText(guard.logit_after);
}

const alert::AlertRecord* DecidingAlert(const RunData& run) {
  const alert::AlertRecord* last = nullptr;
  for (const bool before_collapse : {true, false}) {
    for (const alert::AlertRecord& record : run.alerts) {
      if (record.alert.severity != detect::Severity::kCritical) continue;
      if (before_collapse && run.story.collapse_step && record.alert.fired_step > *run.story.collapse_step)
        continue;
      last = &record;
    }
    if (last != nullptr) break;
  }
  if (last == nullptr) return nullptr;
  for (const alert::AlertRecord& record : run.alerts) {
    const alert::Alert& a = record.alert;
    if (a.severity == detect::Severity::kCritical && a.incident == last->alert.incident) return &record;
  }
  return last;
}

std::optional<int64_t> GuardStep(const RunData& run) {
  for (const wire::Event& event : run.events) {
    if (event.kind == wire::EventKind::kGuard && event.detail.starts_with("on")) return event.step;
  }
  return std::nullopt;
}

std::string Verdict(const RunData& run) {
  const alert::AlertRecord* critical = DecidingAlert(run);
  if (run.story.collapse_step) {
    std::string text = "collapsed at step " + StepText(*run.story.collapse_step);
    if (critical == nullptr) return Badge("critical", text) + " without a critical alert";
    const int64_t lead = *run.story.collapse_step - critical->alert.fired_step;
    return Badge("critical", text) + " critical alert " + StepText(std::abs(lead)) +
           (lead >= 0 ? " steps before" : " steps after");
  }
  const auto guard = GuardStep(run);
  const bool open = std::any_of(run.alerts.begin(), run.alerts.end(), [](const auto& record) {
    return record.alert.severity == detect::Severity::kCritical &&
           (record.alert.state == alert::AlertState::kFiring || !record.resolved_because.empty());
  });
  if (open) return Badge("critical", "critical at the end");
  if (guard) return Badge("guard", "contained") + " guard on at step " + StepText(*guard);
  if (critical != nullptr) return Badge("warning", "recovered") + " from a critical alert";
  if (run.First(detect::Severity::kWarning) != nullptr) return Badge("warning", "warnings only");
  return run.loss.empty() ? Badge("none", "no data") : Badge("good", "no alerts");
}

}  // namespace foreshock::report
