// The line that tells of refusals (base/refusals), one way for all who refuse.
#pragma once

#include <string_view>

#include "foreshock/base/refusals.h"

namespace foreshock {

// A warning: `what` was refused, e.g. "connections refused"; constant text.
void LogRefused(std::string_view component, std::string_view what, const Refusals::Report& report);

}  // namespace foreshock
