// Scenario files: "load these series, expect these alerts" (docs/rules/scenarios.md). They are read from
// YAML, played through the same alert engine as live runs, and compared with what they expect. yaml-cpp stays
// behind this component. No clock, no state; thread-safe. Only RunScenarioFile reads files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/alert_core/alert.h"
#include "foreshock/server/detect/user_rule.h"
#include "foreshock/server/rules/rules_file.h"

namespace foreshock::scenario {

// What one scenario came to.
struct Outcome {
  std::string name;
  int line = 1;  // where it stands in the file
  int64_t samples = 0;
  std::vector<alert::AlertEvent> events;  // all, in order
  // What was expected and did not come, each with its place; empty: passed.
  std::vector<rules::RuleError> failures;
};

struct Report {
  std::vector<rules::RuleError> errors;  // of the file itself; then nothing was played
  std::vector<Outcome> outcomes;
};

// The text of a scenario file; `rules` are the user's rules that run beside the built-in ones (null: none). A
// file that names its own rules is refused here: RunScenarioFile reads them.
Report RunScenarios(std::string_view text, const detect::UserRulesPtr& rules);

// Reads the file and the rules file that it names, relative to its own folder; `rules` stand in where it
// names none. kNotFound, kIo for the scenario file itself; what is wrong inside is in the report.
Result<Report> RunScenarioFile(const std::string& path, const detect::UserRulesPtr& rules);

}  // namespace foreshock::scenario
