#include "payload.h"

#include <algorithm>
#include <cstdio>

#include "foreshock/json/writer.h"
#include "foreshock/server/http/routes.h"

namespace foreshock::notify {
namespace {

using alert::AlertRecord;
using json::Writer;

bool Resolved(const AlertRecord& record) { return record.alert.state == alert::AlertState::kResolved; }

std::string Link(const std::string& external_url, const std::string& run) {
  if (external_url.empty()) return "";
  return external_url + "/report?run=" + http::PercentEncode(run);
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

// What an alert is, the same from its firing to its end.
void PutLabels(const alert::Alert& a, Writer* out) {
  out->Key("labels").BeginObject();
  out->Key("alertname").String(a.rule).Key("severity").String(detect::SeverityName(a.severity));
  out->Key("run").String(a.run).Key("attempt").String(a.attempt);
  if (a.layer >= 0) out->Key("layer").String(std::to_string(a.layer));
  if (a.head >= 0) out->Key("head").String(std::to_string(a.head));
  for (const auto& [name, value] : a.labels) out->Key(name).String(value);
  out->Key("source").String("foreshock").EndObject();
}

void PutAnnotations(const AlertRecord& record, Writer* out) {
  const alert::Alert& a = record.alert;
  out->Key("annotations").BeginObject();
  out->Key("id").String(a.id).Key("summary").String(a.summary).Key("advice").String(a.advice);
  out->Key("evidence").String(EvidenceText(a));
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

}  // namespace

std::string AlertmanagerPayload(const std::vector<AlertRecord>& records, int64_t ends_unix_ns,
                                const std::string& external_url) {
  Writer out;
  out.BeginArray();
  for (const AlertRecord& record : records) {
    out.BeginObject();
    PutLabels(record.alert, &out);
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
  out.Key("alerts").BeginArray();
  for (const AlertRecord& record : records) {
    out.BeginObject().Key("status").String(Resolved(record) ? "resolved" : "firing");
    PutLabels(record.alert, &out);
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
  std::string text = "Foreshock: " + run + "\n";
  for (const AlertRecord& record : records) PutText(record, &text);
  text = SlackEscape(text);
  if (!external_url.empty()) text += "<" + Link(external_url, run) + "|report>\n";
  Writer out;
  out.BeginObject().Key("text").String(text).EndObject();
  return out.Take();
}

}  // namespace foreshock::notify
