#include "finding_util.h"

#include <cstdio>
#include <limits>

namespace foreshock::detect {

std::string Place(const StepView& step, size_t head) {
  return "layer " + std::to_string(step.LayerOf(head)) + " head " + std::to_string(step.HeadOf(head));
}

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
  return text;
}

Finding HeadFinding(const StepView& step, size_t head, Severity severity) {
  Finding finding = RunFinding(step, severity);
  finding.layer = step.LayerOf(head);
  finding.head = step.HeadOf(head);
  return finding;
}

Finding RunFinding(const StepView& step, Severity severity) {
  Finding finding;
  finding.severity = severity;
  finding.first_step = step.step();
  finding.baseline = std::numeric_limits<double>::quiet_NaN();
  return finding;
}

}  // namespace foreshock::detect
