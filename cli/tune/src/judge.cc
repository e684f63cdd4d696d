#include "judge.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "references.h"

namespace foreshock::cli {
namespace {

using Label = Truth::Label;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr double kLeastOwnScore = 0.8;  // below it qk_runaway tells no score

bool IsHealthy(const LabelledRun& run) { return run.truth.label == Label::kHealthy; }
int64_t EndOf(const LabelledRun& run) { return run.truth.collapse.value_or(kNever); }

}  // namespace

Spoke RuleSpoke(const LabelledRun& run, const std::string& rule) {
  Spoke spoke;
  std::map<std::string, const alert::AlertEvent*> open;  // criticals that fire, by id
  for (const alert::AlertEvent& event : run.events) {
    const alert::Alert& alert = event.alert;
    if (alert.severity != detect::Severity::kCritical || (!rule.empty() && alert.rule != rule)) continue;
    if (event.step >= EndOf(run)) break;
    if (event.kind == alert::AlertEvent::Kind::kResolved) {
      open.erase(alert.id);
      continue;
    }
    open[alert.id] = &event;
    if (IsHealthy(run) || event.step < run.truth.onset) spoke.false_alarm = true;
  }
  for (const auto& [id, event] : open) {
    if (event->step < run.truth.onset || (spoke.step && event->step >= *spoke.step)) continue;
    spoke.step = event->step;
    spoke.head = std::array<int, 2>{event->alert.layer, event->alert.head};
  }
  return spoke;
}

Spoke ScoreSpoke(const LabelledRun& run, const std::vector<Point>& points, double threshold) {
  Spoke spoke;
  for (const Point& point : points) {
    if (point.step >= EndOf(run)) break;
    if (!(point.score > threshold)) continue;
    if (IsHealthy(run) || point.step < run.truth.onset) {
      spoke.false_alarm = true;
    } else if (!spoke.step) {
      spoke.step = point.step;
    }
  }
  return spoke;
}

void Add(const LabelledRun& run, const Spoke& spoke, Verdicts* v) {
  const Truth& truth = run.truth;
  if (IsHealthy(run) || truth.onset > 0) {
    ++v->chances;
    v->false_alarms += spoke.false_alarm ? 1 : 0;
    if (spoke.false_alarm) v->false_runs.push_back(run.run);
  }
  if (truth.label == Label::kCollapse) {
    ++v->collapses;
    v->caught += spoke.step ? 1 : 0;
    const double whole = static_cast<double>(*truth.collapse - truth.onset);
    v->leads.push_back(spoke.step ? static_cast<double>(*truth.collapse - *spoke.step) / whole : 0);
  }
  if (truth.label == Label::kFailed) {
    ++v->failed;
    v->failed_seen += spoke.step ? 1 : 0;
  }
  if (truth.head && spoke.head) {
    ++v->heads;
    v->heads_named += *spoke.head == *truth.head ? 1 : 0;
  }
}

std::vector<Verdicts> JudgeRules(const std::vector<LabelledRun>& runs) {
  std::set<std::string> rules = {""};
  for (const LabelledRun& run : runs) {
    for (const alert::AlertEvent& event : run.events) {
      if (event.alert.severity == detect::Severity::kCritical) rules.insert(event.alert.rule);
    }
  }
  std::vector<Verdicts> all;
  for (const std::string& rule : rules) {
    Verdicts verdicts;
    verdicts.detector = rule.empty() ? "any rule" : rule;
    for (const LabelledRun& run : runs) Add(run, RuleSpoke(run, rule), &verdicts);
    all.push_back(std::move(verdicts));
  }
  return all;
}

std::vector<Verdicts> JudgeReferences(const std::vector<LabelledRun>& runs) {
  std::vector<Verdicts> all;
  for (size_t i = 0; !runs.empty() && i < runs[0].scores.size(); ++i) {
    if (runs[0].scores[i].name == kOwnScore) continue;  // the rule itself stands among the rules
    Verdicts verdicts;
    verdicts.detector = runs[0].scores[i].name;
    verdicts.least_threshold = verdicts.most_threshold = runs[0].scores[i].threshold;
    for (const LabelledRun& run : runs) {
      Add(run, ScoreSpoke(run, run.scores[i].points, run.scores[i].threshold), &verdicts);
    }
    all.push_back(std::move(verdicts));
  }
  return all;
}

double ChosenThreshold(const std::vector<LabelledRun>& runs, size_t reference, size_t without) {
  double largest = runs[0].scores[reference].name == kOwnScore ? kLeastOwnScore / kMargin : 0;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (r == without) continue;
    for (const Point& point : runs[r].scores[reference].points) {
      if (IsHealthy(runs[r]) || point.step < runs[r].truth.onset) largest = std::max(largest, point.score);
    }
  }
  return kMargin * largest;
}

std::vector<Verdicts> LeaveOneOut(const std::vector<LabelledRun>& runs) {
  std::vector<Verdicts> all;
  for (size_t i = 0; !runs.empty() && i < runs[0].scores.size(); ++i) {
    Verdicts verdicts;
    verdicts.detector = runs[0].scores[i].name;
    verdicts.least_threshold = std::numeric_limits<double>::infinity();
    for (size_t r = 0; r < runs.size(); ++r) {
      const double threshold = ChosenThreshold(runs, i, r);
      verdicts.least_threshold = std::min(verdicts.least_threshold, threshold);
      verdicts.most_threshold = std::max(verdicts.most_threshold, threshold);
      Add(runs[r], ScoreSpoke(runs[r], runs[r].scores[i].points, threshold), &verdicts);
    }
    all.push_back(std::move(verdicts));
  }
  return all;
}

}  // namespace foreshock::cli
