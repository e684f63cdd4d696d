#include "template_fields.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "foreshock/json/writer.h"
#include "payload.h"

namespace foreshock::notify {
namespace {

using alert::AlertRecord;
using alert::AlertState;

constexpr std::string_view kLabel = "label.", kAnnotation = "annotation.";

bool IsFiring(const AlertRecord& record) { return record.alert.state == AlertState::kFiring; }

std::string StateText(bool firing) { return firing ? "firing" : "resolved"; }
std::string Index(int64_t value) { return value < 0 ? "" : std::to_string(value); }
std::string TimeText(int64_t unix_ns) { return unix_ns == 0 ? "" : json::Rfc3339(unix_ns); }

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string WhereText(const alert::Alert& a) {
  std::string text;
  if (a.layer >= 0) text = "layer " + std::to_string(a.layer);
  if (a.head >= 0) text += (text.empty() ? "head " : ", head ") + std::to_string(a.head);
  return text;
}

template <typename Source>
struct Field {
  std::string_view name;
  std::string (*value)(const Source&);
};

size_t FiringCount(const MessageGroup& group) {
  return static_cast<size_t>(std::count_if(group.records.begin(), group.records.end(), IsFiring));
}

// Of what fires; of what resolved where nothing does.
std::string WorstSeverity(const MessageGroup& group) {
  const bool any = FiringCount(group) > 0;
  detect::Severity worst = detect::Severity::kInfo;
  for (const AlertRecord& record : group.records) {
    if (!any || IsFiring(record)) worst = std::max(worst, record.alert.severity);
  }
  return std::string(detect::SeverityName(worst));
}

constexpr Field<MessageGroup> kGroupFields[] = {
    {"run", [](const MessageGroup& g) { return g.run; }},
    {"status", [](const MessageGroup& g) { return StateText(FiringCount(g) > 0); }},
    {"worst_severity", WorstSeverity},
    {"url", [](const MessageGroup& g) { return g.url; }},
    {"count", [](const MessageGroup& g) { return std::to_string(g.records.size()); }},
    {"firing_count", [](const MessageGroup& g) { return std::to_string(FiringCount(g)); }},
    {"resolved_count",
     [](const MessageGroup& g) { return std::to_string(g.records.size() - FiringCount(g)); }},
    {"first_rule", [](const MessageGroup& g) { return FirstOf(g.records).alert.rule; }},
    {"first_where", [](const MessageGroup& g) { return WhereText(FirstOf(g.records).alert); }},
};

constexpr Field<AlertRecord> kAlertFields[] = {
    {"state", [](const AlertRecord& r) { return StateText(IsFiring(r)); }},
    {"is_firing", [](const AlertRecord& r) { return std::string(IsFiring(r) ? "true" : ""); }},
    {"rule", [](const AlertRecord& r) { return r.alert.rule; }},
    {"severity", [](const AlertRecord& r) { return std::string(detect::SeverityName(r.alert.severity)); }},
    {"attempt", [](const AlertRecord& r) { return r.alert.attempt; }},
    {"layer", [](const AlertRecord& r) { return Index(r.alert.layer); }},
    {"head", [](const AlertRecord& r) { return Index(r.alert.head); }},
    {"where", [](const AlertRecord& r) { return WhereText(r.alert); }},
    {"id", [](const AlertRecord& r) { return r.alert.id; }},
    {"incident", [](const AlertRecord& r) { return r.alert.incident; }},
    {"summary", [](const AlertRecord& r) { return r.alert.summary; }},
    {"advice", [](const AlertRecord& r) { return r.alert.advice; }},
    {"evidence", [](const AlertRecord& r) { return EvidenceText(r.alert); }},
    {"value", [](const AlertRecord& r) { return NumberText(r.alert.value); }},
    {"baseline",
     [](const AlertRecord& r) { return std::isnan(r.alert.baseline) ? "" : NumberText(r.alert.baseline); }},
    {"first_step", [](const AlertRecord& r) { return std::to_string(r.alert.first_evidence_step); }},
    {"fired_step", [](const AlertRecord& r) { return Index(r.alert.fired_step); }},
    {"resolved_step", [](const AlertRecord& r) { return Index(r.alert.resolved_step); }},
    {"resolved_because", [](const AlertRecord& r) { return r.resolved_because; }},
    {"last_checkpoint_step",
     [](const AlertRecord& r) {
       return r.alert.last_checkpoint_step ? std::to_string(*r.alert.last_checkpoint_step) : "";
     }},
    {"last_checkpoint", [](const AlertRecord& r) { return r.last_checkpoint; }},
    {"fired_at", [](const AlertRecord& r) { return TimeText(r.fired_unix_ns); }},
    {"resolved_at", [](const AlertRecord& r) { return TimeText(r.resolved_unix_ns); }},
};

constexpr std::string_view kLists[] = {"alerts", "firing", "resolved"};

template <typename Source, size_t N>
const Field<Source>* Find(const Field<Source> (&fields)[N], std::string_view name) {
  const auto it =
      std::find_if(std::begin(fields), std::end(fields), [&](const auto& f) { return f.name == name; });
  return it == std::end(fields) ? nullptr : it;
}

}  // namespace

FieldScope FindField(std::string_view name) {
  if (std::find(std::begin(kLists), std::end(kLists), name) != std::end(kLists)) return FieldScope::kList;
  if (Find(kGroupFields, name) != nullptr) return FieldScope::kGroup;
  // `last` is known to the renderer, which knows where in a list it is.
  if (name == "last" || Find(kAlertFields, name) != nullptr) return FieldScope::kAlert;
  const bool prefixed = (name.starts_with(kLabel) && name.size() > kLabel.size()) ||
                        (name.starts_with(kAnnotation) && name.size() > kAnnotation.size());
  return prefixed ? FieldScope::kAlert : FieldScope::kUnknown;
}

std::string KnownFields() {
  std::string text;
  for (const auto& field : kGroupFields) text += std::string(field.name) + ", ";
  for (const std::string_view list : kLists) text += std::string(list) + ", ";
  text += "and within a list ";
  for (const auto& field : kAlertFields) text += std::string(field.name) + ", ";
  return text + "last, label.NAME, annotation.NAME";
}

std::string GroupField(std::string_view name, const MessageGroup& group) {
  const auto* field = Find(kGroupFields, name);
  return field != nullptr ? field->value(group) : "";
}

std::string AlertField(std::string_view name, const AlertRecord& record) {
  if (const auto* field = Find(kAlertFields, name)) return field->value(record);
  const auto of = [](const std::map<std::string, std::string>& map, std::string_view key) {
    const auto it = map.find(std::string(key));
    return it != map.end() ? it->second : std::string();
  };
  if (name.starts_with(kLabel)) return of(LabelsOf(record), name.substr(kLabel.size()));
  if (name.starts_with(kAnnotation)) return of(record.alert.annotations, name.substr(kAnnotation.size()));
  return "";
}

std::vector<const AlertRecord*> ListField(std::string_view name, const MessageGroup& group) {
  std::vector<const AlertRecord*> list;
  for (const AlertRecord& record : group.records) {
    if (name == "alerts" || (name == "firing") == IsFiring(record)) list.push_back(&record);
  }
  return list;
}

}  // namespace foreshock::notify
