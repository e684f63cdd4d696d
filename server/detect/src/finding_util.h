// Small helpers for writing findings.
#pragma once

#include <string>

#include "foreshock/server/detect/finding.h"
#include "step_view.h"

namespace foreshock::detect {

// "layer 2 head 5" of a head index over all layers.
std::string Place(const StepView& step, size_t head);
// A number for a person: three significant digits.
std::string Short(double value);
// "7 %".
std::string Percent(double share);
// A finding for a head, or for the whole run, first seen at this step.
Finding HeadFinding(const StepView& step, size_t head, Severity severity);
Finding RunFinding(const StepView& step, Severity severity);

}  // namespace foreshock::detect
