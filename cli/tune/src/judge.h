// How early and how falsely detectors spoke. Private; pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "collect.h"
#include "statistics.h"

namespace foreshock::cli {

// Of one detector in one run.
struct Spoke {
  std::optional<int64_t> step;  // at or after the onset and, in a collapse, before it
  bool false_alarm = false;     // in a healthy run, or before the onset
  std::optional<std::array<int, 2>> head;
};

// A rule's criticals. Of a collapse counts what lasts until then, as an alert that resolved itself warned of
// nothing. `rule` empty: any rule.
Spoke RuleSpoke(const LabelledRun& run, const std::string& rule);
// The first score above the threshold; it need not last.
Spoke ScoreSpoke(const LabelledRun& run, const std::vector<Point>& points, double threshold);

// Of one detector over all runs.
struct Verdicts {
  std::string detector;
  std::vector<double> leads;  // one a collapse, of onset..collapse; 0 for those that were missed
  int64_t caught = 0, collapses = 0;
  int64_t false_alarms = 0, chances = 0;  // healthy runs, and others with steps before an onset
  int64_t failed_seen = 0, failed = 0;
  int64_t heads_named = 0, heads = 0;
  std::vector<std::string> false_runs;
  double least_threshold = 0, most_threshold = 0;  // that judged; 0 for rules
};

void Add(const LabelledRun& run, const Spoke& spoke, Verdicts* verdicts);

// Rules that went critical in some run, by name; "any rule" first.
std::vector<Verdicts> JudgeRules(const std::vector<LabelledRun>& runs);
// The references with the thresholds in common use.
std::vector<Verdicts> JudgeReferences(const std::vector<LabelledRun>& runs);
// The same, each run judged with a threshold that was chosen without it: kMargin times the largest score that
// the others reach where nothing is wrong.
std::vector<Verdicts> LeaveOneOut(const std::vector<LabelledRun>& runs);

inline constexpr double kMargin = 1.05;
// Chosen from all runs but `without` (SIZE_MAX: none); `reference` is an index into LabelledRun::scores.
double ChosenThreshold(const std::vector<LabelledRun>& runs, size_t reference, size_t without);

}  // namespace foreshock::cli
