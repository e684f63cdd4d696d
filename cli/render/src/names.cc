#include "names.h"

#include <algorithm>
#include <cctype>

#include "foreshock/cli/render.h"

namespace foreshock::cli {

std::string ShortName(const std::string& enum_value, size_t prefix) {
  std::string name = enum_value.size() > prefix ? enum_value.substr(prefix) : "unknown";
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

std::string StateName(v1::RunState state) {
  return ShortName(v1::RunState_Name(state), sizeof("RUN_STATE_") - 1);
}
std::string SeverityName(v1::Severity severity) {
  return ShortName(v1::Severity_Name(severity), sizeof("SEVERITY_") - 1);
}
std::string StateName(v1::AlertState state) {
  return ShortName(v1::AlertState_Name(state), sizeof("ALERT_STATE_") - 1);
}
std::string StateName(v1::ActionState state) {
  return ShortName(v1::ActionState_Name(state), sizeof("ACTION_STATE_") - 1);
}
std::string StateName(v1::SilenceState state) {
  return ShortName(v1::SilenceState_Name(state), sizeof("SILENCE_STATE_") - 1);
}
std::string KindName(v1::SilenceKind kind) {
  return ShortName(v1::SilenceKind_Name(kind), sizeof("SILENCE_KIND_") - 1);
}
std::string KindName(v1::EventKind kind) {
  return ShortName(v1::EventKind_Name(kind), sizeof("EVENT_KIND_") - 1);
}
std::string SourceName(v1::AttemptSource source) {
  return ShortName(v1::AttemptSource_Name(source), sizeof("ATTEMPT_SOURCE_") - 1);
}

Paint SeverityPaint(v1::Severity severity) {
  switch (severity) {
    case v1::SEVERITY_CRITICAL:
      return Paint::kRed;
    case v1::SEVERITY_WARNING:
      return Paint::kYellow;
    default:
      return Paint::kCyan;
  }
}

std::string Place(const v1::Alert& alert) {
  if (!alert.has_layer()) return "";
  std::string place = "layer " + std::to_string(alert.layer());
  if (alert.has_head()) place += " head " + std::to_string(alert.head());
  return place;
}

}  // namespace foreshock::cli
