// qk_runaway with other inner constants: what each is worth, and how well constants do that were chosen
// without the run that they judge. Private.
#pragma once

#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/detect/qk_runaway_constants.h"
#include "judge.h"

namespace foreshock::cli {

struct Variant {
  std::string name;
  detect::QkRunawayConstants constants;
};
// The rule as it is, then with one constant about halved or doubled.
const std::vector<Variant>& Variants();

// Replays a recording with each variant of the rule and no other rule: what it said, in the variants' order.
// Errors as Collect's.
Result<std::vector<Spoke>> TryConstants(const std::string& path, const LabelledRun& run);

// Of each variant over all runs. `tried`: what TryConstants gave, a run.
std::vector<Verdicts> JudgeConstants(const std::vector<LabelledRun>& runs,
                                     const std::vector<std::vector<Spoke>>& tried);
// Each run judged by the variant that is best for the others: fewest false alarms, then most collapses
// caught, then the largest median lead; of equals the first.
Verdicts LeaveOneOutConstants(const std::vector<LabelledRun>& runs,
                              const std::vector<std::vector<Spoke>>& tried);

}  // namespace foreshock::cli
