#include "payload.h"

#include <algorithm>
#include <cstdio>

#include "foreshock/base/percent.h"
#include "foreshock/json/writer.h"

namespace foreshock::notify {
namespace {

using alert::AlertRecord;
using json::Writer;

bool Resolved(const AlertRecord& record) { return record.alert.state == alert::AlertState::kResolved; }

}  // namespace

std::string Link(const std::string& external_url, const std::string& run) {
  if (external_url.empty()) return "";
  return external_url + "/report?run=" + PercentEncode(run);
}

std::string EvidenceText(const alert::Alert& a) {
  std::string text;
  for (const detect::Evidence& e : a.evidence) {
    char line[256];
    std::snprintf(line, sizeof line, "%s %.4g", e.name.c_str(), e.value);
    text += (text.empty() ? "" : "; ") + std::string(line);
    if (e.baseline != e.baseline) continue;
    std::snprintf(line, sizeof line, " (normal %.4g)", e.baseline);
    text += line;
  }
  return text;
}

// Where two names become one by this, the first one counts.
std::string LabelName(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!fits) c = '_';
  }
  if (out.empty() || (out[0] >= '0' && out[0] <= '9') || out.starts_with("__")) out.insert(0, "label_");
  return out;
}

std::map<std::string, std::string> LabelsOf(const AlertRecord& record) {
  const alert::Alert& a = record.alert;
  std::map<std::string, std::string> labels = {{"alertname", a.rule},
                                               {"severity", std::string(detect::SeverityName(a.severity))},
                                               {"run", a.run},
                                               {"attempt", a.attempt},
                                               {"source", "foreshock"}};
  // Named even where there is none, so that no label of the run's stands in for it.
  labels["layer"] = a.layer >= 0 ? std::to_string(a.layer) : "";
  labels["head"] = a.head >= 0 ? std::to_string(a.head) : "";
  for (const auto& [name, value] : alert::AllLabels(record)) labels.try_emplace(LabelName(name), value);
  std::erase_if(labels, [](const auto& label) { return label.second.empty(); });
  return labels;
}

namespace {

void PutLabels(const AlertRecord& record, Writer* out) {
  out->Key("labels").BeginObject();
  for (const auto& [name, value] : LabelsOf(record)) out->Key(name).String(value);
  out->EndObject();
}

void PutIndex(int32_t index, Writer* out) {
  if (index < 0) {
    out->Null();
  } else {
    out->Int(index);
  }
}

void PutAnnotations(const AlertRecord& record, Writer* out) {
  const alert::Alert& a = record.alert;
  out->Key("annotations").BeginObject();
  out->Key("id").String(a.id).Key("summary").String(a.summary).Key("advice").String(a.advice);
  out->Key("evidence").String(EvidenceText(a));
  out->Key("incident").String(a.incident);
  out->Key("first_step").String(std::to_string(a.first_evidence_step));
  out->Key("fired_step").String(std::to_string(a.fired_step));
  if (Resolved(record)) out->Key("resolved_step").String(std::to_string(a.resolved_step));
  if (!record.resolved_because.empty()) out->Key("resolved_because").String(record.resolved_because);
  if (a.last_checkpoint_step) {
    out->Key("last_checkpoint_step").String(std::to_string(*a.last_checkpoint_step));
    out->Key("last_checkpoint").String(record.last_checkpoint);
  }
  for (const auto& [name, value] : a.annotations) out->Key(name).String(value);
  out->EndObject();
}

// An alert never ends before it has begun, whatever the clock did.
int64_t EndOf(const AlertRecord& record) {
  return std::max(record.resolved_unix_ns, record.fired_unix_ns + 1'000'000);
}

void PutText(const AlertRecord& record, std::string* text) {
  const alert::Alert& a = record.alert;
  *text += Resolved(record)                            ? "*Resolved* "
           : a.severity == detect::Severity::kCritical ? "*CRITICAL* "
                                                       : "*Warning* ";
  *text += a.rule;
  if (a.layer >= 0) *text += ", layer " + std::to_string(a.layer);
  if (a.head >= 0) *text += ", head " + std::to_string(a.head);
  *text += Resolved(record) ? " at step " + std::to_string(a.resolved_step)
                            : " at step " + std::to_string(a.fired_step);
  if (!record.resolved_because.empty()) *text += " (" + record.resolved_because + ")";
  *text += "\n" + a.summary + "\n";
  if (Resolved(record)) return;
  if (a.last_checkpoint_step)
    *text += "Last checkpoint before: step " + std::to_string(*a.last_checkpoint_step) + "\n";
  if (!a.advice.empty()) *text += "What to do: " + a.advice + "\n";
}

// Of several alerts of one cause the first one is named: the head that ran away first.
std::string Heading(const std::vector<AlertRecord>& records) {
  if (records.size() < 2) return "";
  const AlertRecord& first = FirstOf(records);
  std::string text = ": " + std::to_string(records.size()) + " changes, first " + first.alert.rule;
  if (first.alert.layer >= 0) text += ", layer " + std::to_string(first.alert.layer);
  if (first.alert.head >= 0) text += ", head " + std::to_string(first.alert.head);
  return text + ", evidence from step " + std::to_string(first.alert.first_evidence_step);
}

}  // namespace

const AlertRecord& FirstOf(const std::vector<AlertRecord>& records) {
  return *std::min_element(records.begin(), records.end(), [](const AlertRecord& a, const AlertRecord& b) {
    if (a.alert.first_evidence_step != b.alert.first_evidence_step) {
      return a.alert.first_evidence_step < b.alert.first_evidence_step;
    }
    return a.fired_unix_ns < b.fired_unix_ns;
  });
}

// Slack takes these three as markup.
std::string SlackEscape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string AlertmanagerPayload(const std::vector<AlertRecord>& records, int64_t ends_unix_ns,
                                const std::string& external_url) {
  Writer out;
  out.BeginArray();
  for (const AlertRecord& record : records) {
    out.BeginObject();
    PutLabels(record, &out);
    PutAnnotations(record, &out);
    out.Key("startsAt").String(json::Rfc3339(record.fired_unix_ns));
    out.Key("endsAt").String(json::Rfc3339(Resolved(record) ? EndOf(record) : ends_unix_ns));
    if (!external_url.empty()) out.Key("generatorURL").String(Link(external_url, record.alert.run));
    out.EndObject();
  }
  out.EndArray();
  return out.Take();
}

std::string HeartbeatPayload(int64_t now_unix_ns, int64_t ends_unix_ns) {
  Writer out;
  out.BeginArray().BeginObject().Key("labels").BeginObject();
  out.Key("alertname").String("ForeshockHeartbeat").Key("severity").String("none");
  out.Key("source").String("foreshock").EndObject().Key("annotations").BeginObject();
  out.Key("summary")
      .String("fires as long as the Foreshock server is alive; alert on its absence")
      .EndObject();
  out.Key("startsAt").String(json::Rfc3339(now_unix_ns)).Key("endsAt").String(json::Rfc3339(ends_unix_ns));
  out.EndObject().EndArray();
  return out.Take();
}

std::string WebhookPayload(const std::string& run, const std::vector<AlertRecord>& records,
                           const std::string& external_url) {
  const bool firing = !std::all_of(records.begin(), records.end(), Resolved);
  Writer out;
  out.BeginObject().Key("version").String("1").Key("run").String(run);
  out.Key("status").String(firing ? "firing" : "resolved").Key("url");
  if (external_url.empty()) {
    out.Null();
  } else {
    out.String(Link(external_url, run));
  }
  const alert::Alert& first = FirstOf(records).alert;
  out.Key("first").BeginObject().Key("rule").String(first.rule).Key("layer");
  PutIndex(first.layer, &out);
  out.Key("head");
  PutIndex(first.head, &out);
  out.Key("step").Int(first.first_evidence_step).EndObject();
  out.Key("alerts").BeginArray();
  for (const AlertRecord& record : records) {
    out.BeginObject().Key("status").String(Resolved(record) ? "resolved" : "firing");
    PutLabels(record, &out);
    PutAnnotations(record, &out);
    out.Key("startsAt").String(json::Rfc3339(record.fired_unix_ns)).Key("endsAt");
    if (Resolved(record)) {
      out.String(json::Rfc3339(EndOf(record)));
    } else {
      out.Null();
    }
    out.EndObject();
  }
  out.EndArray().EndObject();
  return out.Take();
}

std::string SlackPayload(const std::string& run, const std::vector<AlertRecord>& records,
                         const std::string& external_url) {
  std::string text = "Foreshock: " + run + Heading(records) + "\n";
  for (const AlertRecord& record : records) PutText(record, &text);
  text = SlackEscape(text);
  if (!external_url.empty()) text += "<" + Link(external_url, run) + "|report>\n";
  return SlackMessage(text);
}

std::string SlackMessage(const std::string& text) {
  Writer out;
  out.BeginObject().Key("text").String(text).EndObject();
  return out.Take();
}

}  // namespace foreshock::notify
