#include "user_rule_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"

namespace foreshock::detect {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<size_t> Selected(const std::vector<IndexRange>& ranges, size_t count) {
  std::vector<size_t> selected;
  for (size_t i = 0; i < count; ++i) {
    const bool in = std::any_of(ranges.begin(), ranges.end(),
                                [&](const IndexRange& range) { return i >= range.first && i <= range.last; });
    if (ranges.empty() || in) selected.push_back(i);
  }
  return selected;
}

bool IsScalar(uint16_t signal) {
  const SignalInfo* info = FindSignal(signal);
  return info && info->scope == SignalScope::kScalar;
}

void Substitute(std::string_view name, const std::string& value, std::string* text) {
  const std::string key = "{" + std::string(name) + "}";
  for (size_t at = text->find(key); at != std::string::npos; at = text->find(key, at + value.size())) {
    text->replace(at, key.size(), value);
  }
}

}  // namespace

UserRuleJudge::UserRuleJudge(const RunInfo& info, UserRule rule)
    : rule_(std::move(rule)),
      scalar_(IsScalar(rule_.signal)),
      selected_layers_(Selected(rule_.layers, info.layers)),
      selected_heads_(Selected(rule_.heads, info.heads)) {
  rule_info_ = {rule_.name,   1,     static_cast<int>(rule_.keep_firing_samples), "a rule of the user's",
                rule_.advice, &rule_};
  const bool whole_run =
      scalar_ || rule_.over_all || rule_.over_layers || rule_.function == WindowFunction::kAbsent;
  if (whole_run) {
    units_.resize(1);
  } else {
    for (const size_t layer : selected_layers_) {
      Unit unit;
      unit.layer = static_cast<int32_t>(layer);
      if (rule_.over_heads) {
        units_.push_back(unit);
        continue;
      }
      for (const size_t head : selected_heads_) {
        unit.head = static_cast<int32_t>(head);
        units_.push_back(unit);
      }
    }
  }
  values_.resize(units_.size());
}

// The optimizer skips a step when its gradients overflow: what they read then says nothing of the run.
bool UserRuleJudge::SaysSomething(const StepView& step) const {
  return !step.skipped() || rule_.signal == kLossScale || rule_.signal == kStepSeconds;
}

// A resume, another phase or a switched guard: what is normal has to be learned again.
void UserRuleJudge::StartAgain(const RunContext& context) {
  if (context.samples_since_disturbance() != 0) return;
  for (Unit& unit : units_) {
    const bool other_layer = context.any_guard_switched() && unit.layer >= 0 &&
                             !context.guard_switched(static_cast<size_t>(unit.layer));
    if (other_layer) continue;
    unit.window.Clear();
    unit.since = -1;
    unit.samples = 0;
  }
}

std::optional<std::vector<Finding>> UserRuleJudge::Judge(const StepView& step, const RunContext& context) {
  StartAgain(context);
  const bool came = SaysSomething(step) && Gather(step);
  if (rule_.function == WindowFunction::kAbsent) return JudgeAbsence(step, came);
  if (!came) return std::nullopt;
  for (size_t i = 0; i < units_.size(); ++i) {
    if (!std::isnan(values_[i])) JudgeUnit(step.step(), values_[i], &units_[i]);
  }
  return Findings(step);
}

bool UserRuleJudge::Gather(const StepView& step) {
  std::fill(values_.begin(), values_.end(), kNan);
  if (scalar_) {
    const auto value = step.Scalar(rule_.signal);
    if (value) values_[0] = *value;
    return value.has_value();
  }
  const HeadValues& heads = step.Heads(rule_.signal);
  if (!heads.any) return false;
  GatherHeads(heads, step);
  return std::any_of(values_.begin(), values_.end(), [](double value) { return !std::isnan(value); });
}

void UserRuleJudge::GatherHeads(const HeadValues& heads, const StepView& step) {
  pool_.clear();
  size_t unit = 0;
  for (const size_t layer : selected_layers_) {
    if (rule_.over_heads) {
      const auto value = ReduceLayer(heads, layer, step.heads());
      if (rule_.over_layers) {
        if (value) pool_.push_back(*value);
      } else {
        values_[unit++] = value.value_or(kNan);
      }
      continue;
    }
    for (const size_t head : selected_heads_) {
      const size_t at = layer * step.heads() + head;
      const double value = heads.present[at] ? heads.value[at] : kNan;
      if (!std::isnan(value)) pool_.push_back(value);
      if (units_.size() > unit && units_[unit].head >= 0) values_[unit++] = value;
    }
  }
  if (rule_.function == WindowFunction::kAbsent) {
    values_[0] = pool_.empty() ? kNan : pool_[0];
  } else if (rule_.over_layers || rule_.over_all) {
    values_[0] = Reduce(rule_.over_layers ? *rule_.over_layers : *rule_.over_all, &pool_).value_or(kNan);
  } else if (rule_.function == WindowFunction::kRatioToMedianHead) {
    median_head_ = MedianInPlace(pool_);
  }
}

std::optional<double> UserRuleJudge::ReduceLayer(const HeadValues& heads, size_t layer,
                                                 size_t heads_per_layer) {
  scratch_.clear();
  for (const size_t head : selected_heads_) {
    const size_t at = layer * heads_per_layer + head;
    if (heads.present[at]) scratch_.push_back(heads.value[at]);
  }
  return Reduce(*rule_.over_heads, &scratch_);
}

// Before the first value the time counts from the first step that the rule saw.
std::optional<std::vector<Finding>> UserRuleJudge::JudgeAbsence(const StepView& step, bool came) {
  Unit& unit = units_[0];
  if (came || seen_step_ < 0) {
    seen_step_ = step.step();
    seen_samples_ago_ = 0;
  } else {
    ++seen_samples_ago_;
  }
  const int64_t steps = step.step() - seen_step_;
  const bool absent =
      rule_.window.steps > 0 ? steps > rule_.window.steps : seen_samples_ago_ > rule_.window.samples;
  if (absent && unit.since < 0) unit.since = seen_step_ + 1;
  if (!absent) unit.since = -1;
  unit.samples = absent ? rule_.hold.samples : 0;
  unit.now = {static_cast<double>(steps), kNan};
  return Findings(step);
}

void UserRuleJudge::JudgeUnit(int64_t step, double value, Unit* unit) {
  std::optional<UnitWindow::Result> result;
  if (rule_.function == WindowFunction::kValue) {
    result = {value, kNan};
  } else if (rule_.function == WindowFunction::kRatioToMedianHead) {
    if (median_head_ != 0) result = {value / median_head_, median_head_};
  } else if (std::isfinite(value)) {
    const bool before =
        rule_.function == WindowFunction::kRatioToMedian || rule_.function == WindowFunction::kZScore;
    unit->window.Push(step, value, rule_.window, before ? 1 : 0);
    result = unit->window.Compute(rule_, &scratch_);
  }
  if (!result || !Holds(rule_.comparison, result->value, rule_.threshold)) {
    unit->since = -1;
    unit->samples = 0;
    return;
  }
  if (unit->since < 0) unit->since = step;
  ++unit->samples;
  unit->now = *result;
}

bool UserRuleJudge::Ripe(int64_t step, const Unit& unit) const {
  if (unit.since < 0) return false;
  return rule_.hold.steps > 0 ? step - unit.since >= rule_.hold.steps : unit.samples >= rule_.hold.samples;
}

// The unit that began first stands for all.
std::vector<Finding> UserRuleJudge::Findings(const StepView& step) const {
  const Unit* first = nullptr;
  size_t count = 0;
  for (const Unit& unit : units_) {
    if (!Ripe(step.step(), unit)) continue;
    ++count;
    if (!first || unit.since < first->since) first = &unit;
  }
  std::vector<Finding> findings;
  if (!first) return findings;
  findings.push_back(FindingOf(step, *first));
  if (count > 1) {
    const char* what = first->head >= 0 ? " heads" : " layers";
    findings[0].evidence.push_back({what + 1, static_cast<double>(count), kNan});
    findings[0].summary += "; " + std::to_string(count) + what + " in all";
  }
  return findings;
}

Finding UserRuleJudge::FindingOf(const StepView& step, const Unit& unit) const {
  Finding finding = RunFinding(step, rule_.severity);
  finding.layer = unit.layer;
  finding.head = unit.head;
  finding.first_step = unit.since;
  finding.value = unit.now.value;
  finding.baseline = unit.now.baseline;
  const std::string signal(FindSignal(rule_.signal)->name);
  finding.evidence = {{rule_.function_name + " of " + signal, unit.now.value, unit.now.baseline},
                      {"threshold", rule_.threshold, kNan}};
  finding.summary = Summary(step, unit);
  return finding;
}

std::string UserRuleJudge::Summary(const StepView& step, const Unit& unit) const {
  std::string where = "the run";
  if (unit.layer >= 0) where = "layer " + std::to_string(unit.layer);
  if (unit.head >= 0) where += " head " + std::to_string(unit.head);
  const std::string signal(FindSignal(rule_.signal)->name);
  if (rule_.summary.empty()) {
    if (rule_.function == WindowFunction::kAbsent)
      return "no " + signal + " for " + Short(unit.now.value) + " steps";
    std::string text = where + ": " + signal;
    if (rule_.function != WindowFunction::kValue) text = where + ": " + rule_.function_name + " of " + signal;
    return text + " is " + Short(unit.now.value) + ", " + std::string(ComparisonSign(rule_.comparison)) +
           " " + Short(rule_.threshold);
  }
  std::string text = rule_.summary;
  Substitute("value", Short(unit.now.value), &text);
  Substitute("baseline", Short(unit.now.baseline), &text);
  Substitute("threshold", Short(rule_.threshold), &text);
  Substitute("where", where, &text);
  Substitute("layer", unit.layer >= 0 ? std::to_string(unit.layer) : "-", &text);
  Substitute("head", unit.head >= 0 ? std::to_string(unit.head) : "-", &text);
  Substitute("step", std::to_string(step.step()), &text);
  Substitute("signal", signal, &text);
  return text;
}

}  // namespace foreshock::detect
