// One replayed run, as the judging needs it. Private.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/alert_core/alert.h"
#include "foreshock/server/detect/user_rule.h"
#include "labels.h"

namespace foreshock::cli {

struct Point {
  int64_t step = 0;
  double score = 0;
};

struct Scores {
  std::string name;
  double threshold = 0;  // as in common use
  std::vector<Point> points;
};

struct LabelledRun {
  std::string run;
  Truth truth;
  std::vector<alert::AlertEvent> events;  // of all rules, without evidence
  std::vector<Scores> scores;             // of the references, always the same in the same order
};

// Replays a recording. kInvalidArgument and kDataLoss as the readers say; kNotFound when the labels lack its
// run (its name, or the file's without its ending).
Result<LabelledRun> Collect(const std::string& path, const std::map<std::string, Truth>& labels,
                            const detect::UserRulesPtr& rules, std::vector<std::string>* warnings);

}  // namespace foreshock::cli
