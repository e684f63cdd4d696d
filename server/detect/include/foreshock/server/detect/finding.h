// What a rule says about one step. Rules judge; whether that becomes an alert is server/alert_core's part.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foreshock::detect {

enum class Severity : uint8_t { kInfo, kWarning, kCritical };  // warning: look; critical: act now
std::string_view SeverityName(Severity severity);              // "info", "warning", "critical"

// One value that a judgement rests on.
struct Evidence {
  std::string name;  // a signal's name, or a feature derived from it, e.g. "wq_sigma1 growth"
  double value = 0;
  double baseline = 0;  // what was normal for this run and head; NaN when there is none
};

struct Finding {
  Severity severity = Severity::kWarning;
  int32_t layer = -1;      // -1: the whole run
  int32_t head = -1;       // -1: no one head
  int64_t first_step = 0;  // step of the first evidence, <= the step judged
  double value = 0;
  double baseline = 0;  // NaN when there is none
  std::vector<Evidence> evidence;
  std::string summary;  // one sentence for a person
};

// A rule's judgement of one step: no finding means "looked, and nothing is wrong". A rule that had no input
// at this step gives no verdict at all, which leaves its alerts as they are. At most one finding a rule: the
// first head to run away stands for the others, which are counted in the evidence.
struct Verdict {
  std::string_view rule;  // e.g. "qk_runaway"; a user's rule lives as long as the detector holds it
  int64_t step = 0;
  std::vector<Finding> findings;
};

}  // namespace foreshock::detect
