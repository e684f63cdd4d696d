#include "expectation.h"

namespace foreshock::scenario {
namespace {

using alert::AlertEvent;

std::string ToText(const StepRange& range) {
  if (range.first == range.last) return "step " + std::to_string(range.first);
  return "steps " + std::to_string(range.first) + " to " + std::to_string(range.last);
}

std::string NameOf(const Expectation& e) {
  return e.severity ? std::string(detect::SeverityName(*e.severity)) + " " + e.rule : e.rule;
}

bool Matches(const Expectation& e, const AlertEvent& event) {
  return event.alert.rule == e.rule && (!e.severity || event.alert.severity == *e.severity);
}

// All that came of the rule, whatever its severity.
std::string Came(const Expectation& e, const std::vector<AlertEvent>& events) {
  constexpr size_t kMost = 12;
  std::string text;
  size_t count = 0;
  for (const AlertEvent& event : events) {
    if (event.alert.rule != e.rule) continue;
    if (++count <= kMost) text += (text.empty() ? "" : "; ") + Describe(event);
  }
  if (count > kMost) text += "; and " + std::to_string(count - kMost) + " more";
  return text.empty() ? e.rule + " never fired" : "it " + text;
}

const AlertEvent* First(const Expectation& e, const std::vector<AlertEvent>& events, AlertEvent::Kind kind) {
  for (const AlertEvent& event : events) {
    if (event.kind == kind && Matches(e, event)) return &event;
  }
  return nullptr;
}

bool FiresAtEnd(const Expectation& e, const std::vector<AlertEvent>& events) {
  bool fires = false;
  for (const AlertEvent& event : events) {
    if (Matches(e, event)) fires = event.kind == AlertEvent::Kind::kFiring;
  }
  return fires;
}

// The first thing that is not as expected.
std::optional<std::string> Difference(const Expectation& e, const std::vector<AlertEvent>& events) {
  const AlertEvent* fired = First(e, events, AlertEvent::Kind::kFiring);
  if (e.never) return fired ? std::optional("never to fire") : std::nullopt;
  const std::string when = e.fires ? " at " + ToText(*e.fires) : "";
  if (!fired || (e.fires && !e.fires->holds(fired->step))) return "to fire" + when;
  const alert::Alert& alert = fired->alert;
  if (e.layer && alert.layer != *e.layer) return "in layer " + std::to_string(*e.layer);
  if (e.head && alert.head != *e.head) return "in head " + std::to_string(*e.head);
  if (e.first_evidence && !e.first_evidence->holds(alert.first_evidence_step)) {
    return "first evidence at " + ToText(*e.first_evidence) + ", not step " +
           std::to_string(alert.first_evidence_step);
  }
  if (e.last_checkpoint && alert.last_checkpoint_step != e.last_checkpoint) {
    return "to name the checkpoint of step " + std::to_string(*e.last_checkpoint);
  }
  if (e.resolves) {
    const AlertEvent* resolved = First(e, events, AlertEvent::Kind::kResolved);
    if (!resolved || !e.resolves->holds(resolved->step)) return "to resolve at " + ToText(*e.resolves);
  }
  if (e.fires_at_end && FiresAtEnd(e, events) != *e.fires_at_end) {
    return *e.fires_at_end ? "to fire at the end" : "to have resolved by the end";
  }
  return std::nullopt;
}

}  // namespace

std::string Describe(const AlertEvent& event) {
  std::string text = event.kind == AlertEvent::Kind::kFiring ? "fires " : "resolves ";
  text += std::string(detect::SeverityName(event.alert.severity)) + " " + event.alert.rule;
  if (event.alert.layer >= 0) text += " layer " + std::to_string(event.alert.layer);
  if (event.alert.head >= 0) text += " head " + std::to_string(event.alert.head);
  return text + " at step " + std::to_string(event.step);
}

std::optional<std::string> Unmet(const Expectation& e, const std::vector<AlertEvent>& events) {
  const auto difference = Difference(e, events);
  if (!difference) return std::nullopt;
  return "expected " + NameOf(e) + " " + *difference + "; " + Came(e, events);
}

}  // namespace foreshock::scenario
