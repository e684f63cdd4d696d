// A scenario file as read, before it is played. Private.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "curve.h"
#include "foreshock/server/detect/detector.h"
#include "foreshock/server/rules/rules_file.h"

namespace foreshock::scenario {

struct Place {
  int line = 1, column = 1;
};

struct Line {
  uint16_t signal = 0;
  bool scalar = false;
  std::optional<uint32_t> layer, head;  // absent: all
  Curve curve;
  double noise = 0;  // +- this much, uniform
};

struct StepEvents {
  int64_t step = 0;
  std::optional<detect::StepEvent> event;
  bool skipped = false;
  double silent_seconds = 0;  // after the step
};

struct StepRange {
  int64_t first = 0, last = std::numeric_limits<int64_t>::max();
  bool holds(int64_t step) const { return step >= first && step <= last; }
};

struct Expectation {
  Place place;
  std::string rule;
  std::optional<detect::Severity> severity;
  bool never = false;
  std::optional<StepRange> fires, resolves, first_evidence;
  std::optional<bool> fires_at_end;
  std::optional<int32_t> layer, head;
  std::optional<int64_t> last_checkpoint;
};

struct Scenario {
  std::string name;
  Place place;
  std::string run = "scenario";
  detect::RunInfo model;
  int64_t first_step = 0, every = 1, until = -1;  // until is exclusive; -1: the end of the longest series
  bool healthy = false;
  std::vector<Line> lines;
  std::vector<StepEvents> events;
  std::vector<Expectation> expectations;
  bool nothing_else = false;  // rules without an expectation must not fire
};

struct ScenarioFile {
  std::string rules;  // path, as written; empty: none
  Place rules_place;
  std::vector<Scenario> scenarios;
  std::vector<rules::RuleError> errors;
};

ScenarioFile ParseScenarioFile(std::string_view text);

// Rules that no one knows, in expectations.
void CheckRuleNames(const detect::UserRulesPtr& rules, ScenarioFile* file);

}  // namespace foreshock::scenario
