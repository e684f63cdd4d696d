#include "alert_book.h"

#include <algorithm>

#include "foreshock/server/detect/user_rule.h"

namespace foreshock::alert {
namespace {

using detect::Finding;
using detect::RuleInfo;
using detect::Severity;
using detect::Verdict;

const Finding* MostSevere(const Verdict& verdict) {
  const Finding* worst = nullptr;
  for (const Finding& finding : verdict.findings) {
    if (!worst || finding.severity > worst->severity) worst = &finding;
  }
  return worst;
}

// The highest severity that has stood long enough to fire; nullopt when none has.
std::optional<Severity> Ripe(const RuleState& rule, int fire_after) {
  for (int s = 2; s >= 0; --s) {
    if (rule.at_least[s] >= fire_after) return static_cast<Severity>(s);
  }
  return std::nullopt;
}

}  // namespace

void AlertBook::AddCheckpoint(int64_t step) {
  auto& steps = state_.checkpoints;
  if (!steps.empty() && steps.back() >= step) return;
  if (steps.size() == kMaxCheckpoints) steps.erase(steps.begin());
  steps.push_back(step);
}

void AlertBook::Apply(const Verdict& verdict, const RuleInfo& info, std::vector<AlertEvent>* events) {
  const Finding* finding = MostSevere(verdict);
  if (!finding && !state_.rules.contains(std::string(verdict.rule))) return;
  RuleState& rule = state_.rules[std::string(verdict.rule)];
  Count(finding, &rule);

  const bool firing = rule.alert && rule.alert->state == AlertState::kFiring;
  if (!firing) {
    if (!finding) {
      rule.alert.reset();
      return;
    }
    if (!rule.alert) rule.alert = NewAlert(verdict, info, *finding, finding->severity);
    Update(*finding, &*rule.alert);
    if (const auto severity = Ripe(rule, info.fire_after)) {
      Alert alert = NewAlert(verdict, info, *finding, *severity);
      alert.first_evidence_step = std::min(alert.first_evidence_step, rule.alert->first_evidence_step);
      alert.last_checkpoint_step = CheckpointBefore(alert.first_evidence_step);
      Fire(std::move(alert), verdict.step, &rule, events);
    }
    return;
  }

  const auto now = static_cast<size_t>(rule.alert->severity);
  if (!finding) {
    if (rule.below[0] >= info.resolve_after) Resolve(verdict.step, &rule, events);
    return;
  }
  Update(*finding, &*rule.alert);
  const auto ripe = Ripe(rule, info.fire_after);
  const bool rises = ripe && *ripe > rule.alert->severity;
  const bool eases = rule.below[now] >= info.resolve_after;
  if (!rises && !eases) return;
  Alert next = NewAlert(verdict, info, *finding, rises ? *ripe : finding->severity);
  next.incident = rule.alert->incident;
  next.first_evidence_step = rule.alert->first_evidence_step;
  next.last_checkpoint_step = rule.alert->last_checkpoint_step;
  Resolve(verdict.step, &rule, events);
  Fire(std::move(next), verdict.step, &rule, events);
}

void AlertBook::Count(const Finding* finding, RuleState* rule) const {
  for (int s = 0; s < 3; ++s) {
    const bool reached = finding && static_cast<int>(finding->severity) >= s;
    rule->at_least[s] = reached ? rule->at_least[s] + 1 : 0;
    rule->below[s] = reached ? 0 : rule->below[s] + 1;
  }
}

Alert AlertBook::NewAlert(const Verdict& verdict, const RuleInfo& info, const Finding& finding,
                          Severity severity) const {
  Alert alert;
  alert.id = run_ + "/" + attempt_ + "/" + std::string(verdict.rule) + "/" +
             std::string(detect::SeverityName(severity)) + "/" + std::to_string(verdict.step);
  alert.run = run_;
  alert.attempt = attempt_;
  alert.rule = verdict.rule;
  alert.severity = severity;
  alert.layer = finding.layer;
  alert.head = finding.head;
  alert.first_evidence_step = finding.first_step;
  alert.last_checkpoint_step = CheckpointBefore(finding.first_step);
  alert.advice = info.advice;
  if (info.user) {
    alert.labels = info.user->labels;
    alert.annotations = info.user->annotations;
    alert.action = info.user->action;
  }
  Update(finding, &alert);
  return alert;
}

// Layer and head stay: an alert keeps the head that it fired for.
void AlertBook::Update(const Finding& finding, Alert* alert) const {
  alert->value = finding.value;
  alert->baseline = finding.baseline;
  alert->evidence = finding.evidence;
  alert->summary = finding.summary;
}

void AlertBook::Fire(Alert alert, int64_t step, RuleState* rule, std::vector<AlertEvent>* events) {
  if (alert.incident.empty()) alert.incident = OpenIncident();
  if (alert.incident.empty()) alert.incident = alert.id;
  alert.state = AlertState::kFiring;
  alert.fired_step = step;
  events->push_back({AlertEvent::Kind::kFiring, step, alert});
  rule->alert = std::move(alert);
}

void AlertBook::Resolve(int64_t step, RuleState* rule, std::vector<AlertEvent>* events) {
  rule->alert->state = AlertState::kResolved;
  rule->alert->resolved_step = step;
  events->push_back({AlertEvent::Kind::kResolved, step, *std::move(rule->alert)});
  rule->alert.reset();
}

void AlertBook::Forget(const std::string& rule, std::vector<AlertEvent>* events) {
  const auto it = state_.rules.find(rule);
  if (it == state_.rules.end()) return;
  if (it->second.alert && it->second.alert->state == AlertState::kFiring) {
    Resolve(state_.last_step, &it->second, events);
  }
  state_.rules.erase(it);
}

std::optional<int64_t> AlertBook::CheckpointBefore(int64_t step) const {
  const auto& steps = state_.checkpoints;
  const auto it = std::lower_bound(steps.begin(), steps.end(), step);
  if (it == steps.begin()) return std::nullopt;
  return *std::prev(it);
}

std::string AlertBook::OpenIncident() const {
  const Alert* first = nullptr;
  for (const auto& [name, rule] : state_.rules) {
    if (!rule.alert || rule.alert->state != AlertState::kFiring) continue;
    // What is for the record may stay for the whole run: it holds no incident open.
    if (rule.alert->severity == Severity::kInfo) continue;
    if (!first || rule.alert->fired_step < first->fired_step) first = &*rule.alert;
  }
  return first ? first->incident : std::string();
}

std::vector<Alert> AlertBook::Open() const {
  std::vector<Alert> open;
  for (const auto& [name, rule] : state_.rules) {
    if (rule.alert) open.push_back(*rule.alert);
  }
  std::stable_sort(open.begin(), open.end(), [](const Alert& a, const Alert& b) {
    return a.first_evidence_step < b.first_evidence_step;
  });
  return open;
}

}  // namespace foreshock::alert
