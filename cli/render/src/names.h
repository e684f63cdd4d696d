// Names of the messages' enumerations, and the colours that go with them. Private.
#pragma once

#include <string>

#include "foreshock/cli/style.h"
#include "foreshock/v1/control.pb.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::cli {

// "RUN_STATE_RUNNING" without `prefix` characters, in lower case; "unknown" for a number without a name.
std::string ShortName(const std::string& enum_value, size_t prefix);

std::string StateName(v1::AlertState state);
std::string StateName(v1::ActionState state);
std::string StateName(v1::SilenceState state);
std::string KindName(v1::SilenceKind kind);
std::string KindName(v1::EventKind kind);
std::string SourceName(v1::AttemptSource source);
Paint SeverityPaint(v1::Severity severity);

}  // namespace foreshock::cli
