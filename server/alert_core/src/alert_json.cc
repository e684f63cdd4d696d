#include "alert_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace foreshock::alert {
namespace {

using nlohmann::json;
// Keys in the order in which they are written, as DESIGN section 9 shows them.
using nlohmann::ordered_json;

constexpr int kFormat = 1;

json Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

double ToNumber(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto& text = value.get_ref<const std::string&>();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  throw json::other_error::create(501, "not a number: " + text, &value);
}

template <typename Enum, typename Name>
Enum ToEnum(const json& value, Name name, int count) {
  const auto& text = value.get_ref<const std::string&>();
  for (int i = 0; i < count; ++i) {
    if (name(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  throw json::other_error::create(501, "unknown name: " + text, &value);
}

json Optional(int64_t value) { return value < 0 ? json() : json(value); }
int64_t FromOptional(const json& value) { return value.is_null() ? -1 : value.get<int64_t>(); }

ordered_json ToJson(const Alert& a) {
  ordered_json evidence = ordered_json::array();
  for (const detect::Evidence& e : a.evidence) {
    evidence.push_back({{"name", e.name}, {"value", Number(e.value)}, {"baseline", Number(e.baseline)}});
  }
  ordered_json out;
  out["id"] = a.id;
  out["incident"] = a.incident;
  out["run"] = a.run;
  out["attempt"] = a.attempt;
  out["rule"] = a.rule;
  out["severity"] = detect::SeverityName(a.severity);
  out["state"] = AlertStateName(a.state);
  out["layer"] = Optional(a.layer);
  out["head"] = Optional(a.head);
  out["first_evidence_step"] = a.first_evidence_step;
  out["fired_step"] = Optional(a.fired_step);
  out["resolved_step"] = Optional(a.resolved_step);
  out["value"] = Number(a.value);
  out["baseline"] = Number(a.baseline);
  out["evidence"] = std::move(evidence);
  out["last_checkpoint_step"] = a.last_checkpoint_step ? json(*a.last_checkpoint_step) : json();
  out["summary"] = a.summary;
  out["advice"] = a.advice;
  if (!a.labels.empty()) out["labels"] = a.labels;
  if (!a.annotations.empty()) out["annotations"] = a.annotations;
  if (!a.action.empty()) out["action"] = a.action;
  return out;
}

Alert ToAlert(const json& in) {
  Alert a;
  a.id = in.at("id");
  a.incident = in.at("incident");
  a.run = in.at("run");
  a.attempt = in.at("attempt");
  a.rule = in.at("rule");
  a.severity = ToEnum<detect::Severity>(in.at("severity"), detect::SeverityName, 3);
  a.state = ToEnum<AlertState>(in.at("state"), AlertStateName, 3);
  a.layer = static_cast<int32_t>(FromOptional(in.at("layer")));
  a.head = static_cast<int32_t>(FromOptional(in.at("head")));
  a.first_evidence_step = in.at("first_evidence_step");
  a.fired_step = FromOptional(in.at("fired_step"));
  a.resolved_step = FromOptional(in.at("resolved_step"));
  a.value = ToNumber(in.at("value"));
  a.baseline = ToNumber(in.at("baseline"));
  for (const json& e : in.at("evidence")) {
    a.evidence.push_back({e.at("name"), ToNumber(e.at("value")), ToNumber(e.at("baseline"))});
  }
  const json& checkpoint = in.at("last_checkpoint_step");
  if (!checkpoint.is_null()) a.last_checkpoint_step = checkpoint.get<int64_t>();
  a.summary = in.at("summary");
  a.advice = in.at("advice");
  a.labels = in.value("labels", a.labels);
  a.annotations = in.value("annotations", a.annotations);
  a.action = in.value("action", a.action);
  return a;
}

// Text from outside (summaries name runs) may be invalid UTF-8: replaced, never an exception.
template <typename J>
std::string Dump(const J& value) {
  return value.dump(-1, ' ', false, J::error_handler_t::replace);
}

}  // namespace

std::string AlertToJson(const Alert& alert) { return Dump(ToJson(alert)); }

Result<Alert> AlertFromJson(std::string_view text) {
  try {
    return ToAlert(json::parse(text));
  } catch (const json::exception& error) {
    return Status(Code::kDataLoss, std::string("alert: ") + error.what());
  }
}

std::string AlertEventToJsonLine(const AlertEvent& event) {
  const Alert& a = event.alert;
  ordered_json out;
  out["event"] = AlertEventName(event.kind);
  out["rule"] = a.rule;
  out["severity"] = detect::SeverityName(a.severity);
  out["run"] = a.run;
  out["step"] = event.step;
  out["layer"] = Optional(a.layer);
  out["head"] = Optional(a.head);
  out["value"] = Number(a.value);
  out["summary"] = a.summary;
  return Dump(out);
}

std::string StateToJson(const AlertBook& book) {
  const BookState& state = book.state();
  ordered_json rules = ordered_json::object();
  for (const auto& [name, rule] : state.rules) {
    ordered_json one;
    one["alert"] = rule.alert ? ToJson(*rule.alert) : ordered_json();
    one["at_least"] = rule.at_least;
    one["below"] = rule.below;
    rules[name] = std::move(one);
  }
  ordered_json out;
  out["format"] = kFormat;
  out["run"] = book.run();
  out["attempt"] = book.attempt();
  out["last_step"] = state.last_step;
  out["checkpoints"] = state.checkpoints;
  out["rules"] = std::move(rules);
  return Dump(out);
}

Result<SavedState> StateFromJson(std::string_view text) {
  try {
    const json in = json::parse(text);
    if (in.at("format") != kFormat) {
      return Status(Code::kDataLoss, "alert state: format " + in.at("format").dump() + ", expected 1");
    }
    SavedState saved;
    saved.run = in.at("run");
    saved.attempt = in.at("attempt");
    saved.book.last_step = in.at("last_step");
    saved.book.checkpoints = in.at("checkpoints").get<std::vector<int64_t>>();
    for (const auto& [name, one] : in.at("rules").items()) {
      RuleState rule;
      if (!one.at("alert").is_null()) rule.alert = ToAlert(one.at("alert"));
      rule.at_least = one.at("at_least").get<std::array<int, 3>>();
      rule.below = one.at("below").get<std::array<int, 3>>();
      saved.book.rules[name] = std::move(rule);
    }
    return saved;
  } catch (const json::exception& error) {
    return Status(Code::kDataLoss, std::string("alert state: ") + error.what());
  }
}

}  // namespace foreshock::alert
