// An alert: one rule's judgement of one run, from its first evidence to its end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/detect/finding.h"

namespace foreshock::alert {

enum class AlertState : uint8_t { kPending, kFiring, kResolved };
std::string_view AlertStateName(AlertState state);  // "pending", "firing", "resolved"

struct Alert {
  std::string id;  // stable: run/attempt/rule/severity/step of the first evidence; the same after a restart
  std::string incident;  // id of the first alert of the incident: alerts above info that are open together share it
  std::string run;
  std::string attempt;
  std::string rule;
  detect::Severity severity = detect::Severity::kWarning;
  AlertState state = AlertState::kPending;
  int32_t layer = -1;  // -1: the whole run. Layer and head stay those of the firing
  int32_t head = -1;
  int64_t first_evidence_step = 0;
  int64_t fired_step = -1;     // -1: not yet
  int64_t resolved_step = -1;  // -1: not yet
  double value = 0;            // at the last verdict
  double baseline = 0;         // NaN when there is none
  std::vector<detect::Evidence> evidence;
  std::optional<int64_t>
      last_checkpoint_step;  // the last one before the first evidence; nullopt: none was told
  std::string summary;
  std::string advice;  // what to do
  // Of a user's rule, else empty. `action` is what the rule asks of the trainer (detect::UserRuleActions()).
  std::map<std::string, std::string> labels, annotations;
  std::string action;
};

// What changed: goes to notifiers, to `foreshock watch`, to the store. `alert` is a copy as of `step`.
struct AlertEvent {
  enum class Kind : uint8_t { kFiring, kResolved };
  Kind kind = Kind::kFiring;
  int64_t step = 0;
  Alert alert;
};
std::string_view AlertEventName(AlertEvent::Kind kind);  // "firing", "resolved"

// One JSON object with every field, one line. NaN and Inf are the strings "NaN", "Infinity", "-Infinity".
std::string AlertToJson(const Alert& alert);
// kDataLoss when the text is no such object.
Result<Alert> AlertFromJson(std::string_view json);

// The line of `foreshock replay --json` and `foreshock watch --json` (DESIGN section 9):
// {"event","rule","severity","run","step","layer","head","value","summary"}; layer and head null without one.
std::string AlertEventToJsonLine(const AlertEvent& event);

}  // namespace foreshock::alert
