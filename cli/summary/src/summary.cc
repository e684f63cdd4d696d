#include "foreshock/cli/summary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "foreshock/cli/lead.h"
#include "foreshock/cli/loss_outcome.h"
#include "foreshock/cli/number.h"
#include "foreshock/cli/render.h"
#include "foreshock/cli/values.h"

namespace foreshock::cli {
namespace {

constexpr double kContainedWithin = 0.25;

constexpr std::array<std::pair<Verdict, const char*>, 6> kNames = {{{Verdict::kHealthy, "healthy"},
                                                                    {Verdict::kNotLearned, "not_learned"},
                                                                    {Verdict::kCollapsed, "collapsed"},
                                                                    {Verdict::kContained, "contained"},
                                                                    {Verdict::kNotContained, "not_contained"},
                                                                    {Verdict::kCritical, "critical"}}};

std::string Label(const v1::Run& run, const std::string& name) {
  const auto at = run.labels().find(name);
  return at == run.labels().end() ? "" : at->second;
}

std::optional<int64_t> WholeNumber(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void ReadFault(const RunRecord& record, std::optional<int64_t> told_onset, RunSummary* summary) {
  constexpr std::string_view kNote = "fault ";
  summary->fault = Label(record.run, "fault");
  summary->onset_step = WholeNumber(Label(record.run, "fault_step"));
  for (const v1::Event& event : record.events) {
    if (event.kind() != v1::EVENT_KIND_NOTE || !event.detail().starts_with(kNote)) continue;
    summary->fault = event.detail().substr(kNote.size());
    summary->onset_step = event.step();
  }
  if (told_onset) summary->onset_step = told_onset;
}

LossOutcome Outcome(const v1::SeriesPoints& loss, int64_t every_steps) {
  LossOutcome outcome;
  for (const v1::SeriesPoint& point : loss.points()) {
    if (point.step() % every_steps != 0) continue;
    const std::vector<HeadValue> values = HeadValues(point.series());
    if (!values.empty() && values[0].value) outcome.Add(point.step(), *values[0].value);
  }
  return outcome;
}

void Earliest(std::optional<int64_t>* step, int64_t candidate) {
  if (!*step || candidate < **step) *step = candidate;
}

bool Fired(const v1::Alert& alert) {
  return alert.state() == v1::ALERT_STATE_FIRING || alert.state() == v1::ALERT_STATE_RESOLVED;
}

void NameCritical(const std::vector<v1::Alert>& alerts, int64_t step, RunSummary* summary) {
  for (const v1::Alert& alert : alerts) {
    if (!Fired(alert) || alert.severity() != v1::SEVERITY_CRITICAL || alert.fired_step() != step) continue;
    summary->critical_rule = alert.rule();
    summary->critical_place = Place(alert);
  }
}

// `end`: what resolves there or later fired to the end, because the announced end of a run resolves
// everything.
void ReadAlerts(const std::vector<v1::Alert>& alerts, int64_t end, RunSummary* summary) {
  std::vector<FiringSpan> criticals;
  for (const v1::Alert& alert : alerts) {
    if (!Fired(alert) || alert.severity() < v1::SEVERITY_WARNING) continue;
    const bool before_onset = summary->onset_step && alert.fired_step() < *summary->onset_step;
    if (!before_onset) Earliest(&summary->first_warning_step, alert.fired_step());
    if (alert.severity() != v1::SEVERITY_CRITICAL) continue;
    const bool to_end = alert.state() == v1::ALERT_STATE_FIRING || alert.resolved_step() >= end;
    criticals.push_back({alert.fired_step(), to_end ? FiringSpan::kStillFiring : alert.resolved_step()});
    Earliest(&summary->first_critical_step, alert.fired_step());
    summary->critical_at_end |= to_end;
  }
  const int64_t until = summary->collapse_step.value_or(FiringSpan::kStillFiring);
  summary->lasting_critical_step = LastingSince(criticals, until);
  const std::optional<int64_t> named =
      summary->lasting_critical_step ? summary->lasting_critical_step : summary->first_critical_step;
  if (named) NameCritical(alerts, *named, summary);
}

void ReadEvents(const std::vector<v1::Event>& events, RunSummary* summary) {
  for (const v1::Event& event : events) {
    const bool guard = event.kind() == v1::EVENT_KIND_GUARD && event.detail().starts_with("on");
    const bool action = event.kind() == v1::EVENT_KIND_ACTION && event.action() == "enable_qk_norm" &&
                        event.action_state() == v1::ACTION_STATE_TAKEN;
    if (guard || action) Earliest(&summary->guard_step, event.step());
  }
}

// Why a guarded run does not count as contained; empty when it does.
std::string NotContained(const RunSummary& summary, const RunSummary* reference) {
  if (summary.onset_step && *summary.guard_step < *summary.onset_step)
    return "the guard was on before the fault";
  if (summary.critical_at_end) return "a critical alert fires at the end";
  if (!summary.final_loss) return "no loss";
  if (reference == nullptr || !reference->final_loss) return "";
  const double gap = *summary.final_loss - *reference->final_loss;
  if (!(gap <= kContainedWithin)) {
    return "final loss " + FormatNumber(gap) + " above " + reference->run + "'s, more than 0.25";
  }
  return "";
}

Verdict Judge(const RunSummary& summary, bool learned) {
  if (summary.collapse_step) return Verdict::kCollapsed;
  if (summary.guard_step) return Verdict::kContained;
  if (summary.first_critical_step) return Verdict::kCritical;
  return learned ? Verdict::kHealthy : Verdict::kNotLearned;
}

RunSummary One(const RunRecord& record, const SummaryOptions& options) {
  RunSummary summary;
  summary.run = record.run.run();
  summary.state = record.run.state();
  ReadFault(record, options.onset_step, &summary);
  const LossOutcome outcome = Outcome(record.loss, std::max<int64_t>(options.every_steps, 1));
  summary.last_step = outcome.last_step();
  summary.final_loss = outcome.smoothed();
  summary.minimum_loss = outcome.minimum();
  summary.collapse_step = outcome.collapse_step();
  std::vector<v1::Alert> alerts;
  const int attempts = record.run.attempts_size();
  for (const v1::Alert& alert : record.alerts) {
    if (attempts == 0 || alert.attempt() == record.run.attempts(attempts - 1).attempt())
      alerts.push_back(alert);
  }
  const int64_t last = attempts > 0 ? record.run.attempts(attempts - 1).last_step() : record.run.last_step();
  ReadAlerts(alerts, std::max(last, summary.last_step.value_or(0)), &summary);
  ReadEvents(record.events, &summary);
  summary.verdict = Judge(summary, outcome.learned());
  return summary;
}

}  // namespace

std::string VerdictName(Verdict verdict) {
  for (const auto& [value, name] : kNames) {
    if (value == verdict) return name;
  }
  return "unknown";
}

std::optional<Verdict> ParseVerdict(const std::string& text) {
  for (const auto& [value, name] : kNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> RunSummary::lead_steps() const {
  if (!collapse_step || !lasting_critical_step) return std::nullopt;
  return *collapse_step - *lasting_critical_step;
}

std::optional<double> RunSummary::lead_share() const {
  const std::optional<int64_t> lead = lead_steps();
  if (!lead || !onset_step || *collapse_step <= *onset_step) return std::nullopt;
  return static_cast<double>(*lead) / static_cast<double>(*collapse_step - *onset_step);
}

std::vector<RunSummary> Summarise(const std::vector<RunRecord>& records, const SummaryOptions& options) {
  std::vector<RunSummary> summaries;
  for (const RunRecord& record : records) summaries.push_back(One(record, options));
  const auto healthy = std::find_if(summaries.begin(), summaries.end(),
                                    [](const RunSummary& s) { return s.verdict == Verdict::kHealthy; });
  const RunSummary* reference = healthy == summaries.end() ? nullptr : &*healthy;
  for (RunSummary& summary : summaries) {
    if (summary.verdict != Verdict::kContained) continue;
    summary.why = NotContained(summary, reference);
    if (!summary.why.empty()) summary.verdict = Verdict::kNotContained;
  }
  return summaries;
}

}  // namespace foreshock::cli
