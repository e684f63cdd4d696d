#include "foreshock/cli/number.h"
#include "foreshock/cli/render.h"
#include "foreshock/cli/table.h"
#include "foreshock/json/writer.h"
#include "names.h"

namespace foreshock::cli {
namespace {

// "2026-11-30 01:20:05Z".
std::string TimeOf(uint64_t unix_ns) {
  if (unix_ns == 0) return "-";
  std::string text = json::Rfc3339(static_cast<int64_t>(unix_ns)).substr(0, 19);
  text[10] = ' ';
  return text + "Z";
}

std::string Covered(const v1::Silence& s) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) text += (text.empty() ? "" : ", ") + name + " " + Printable(value);
  };
  add("run", s.run());
  add("rule", s.rule());
  if (s.severity() != v1::SEVERITY_UNSPECIFIED) add("severity", SeverityName(s.severity()));
  if (s.has_layer()) add("layer", std::to_string(s.layer()));
  if (s.has_head()) add("head", std::to_string(s.head()));
  return text;
}

// "active", "expired by ada", with what became of the copies.
std::string StateText(const v1::Silence& s) {
  std::string text = StateName(s.state());
  if (!s.ended_by().empty()) text += " (" + Printable(s.ended_by()) + ")";
  for (const auto& [target, state] : s.copies()) text += "; " + Printable(target) + ": " + Printable(state);
  return text;
}

}  // namespace

std::string RenderSilences(const v1::ListSilencesReply& reply, const Style& style) {
  if (reply.silences_size() == 0) return "no silences\n";
  Table table({{"id"}, {"kind"}, {"covers"}, {"by"}, {"from"}, {"until"}, {"state"}, {"comment"}});
  for (const v1::Silence& s : reply.silences()) {
    const Paint paint = s.state() == v1::SILENCE_STATE_EXPIRED ? Paint::kPlain : Paint::kCyan;
    table.AddRow({Printable(s.id()), KindName(s.kind()), Covered(s), Printable(s.author()),
                  TimeOf(s.starts_unix_ns()), TimeOf(s.ends_unix_ns()), style(paint, StateText(s)),
                  Printable(s.comment())});
  }
  return table.Render(style);
}

std::string RenderAudit(const v1::ListAuditReply& reply, const Style& style) {
  if (reply.entries_size() == 0) return "nothing on record\n";
  Table table({{"time"}, {"who"}, {"what"}, {"run"}, {"subject"}, {"detail"}});
  for (const v1::AuditEntry& e : reply.entries()) {
    table.AddRow({TimeOf(e.time_unix_ns()), Printable(e.who()), Printable(e.what()), Printable(e.run()),
                  Printable(e.subject()), Printable(e.detail())});
  }
  return table.Render(style);
}

}  // namespace foreshock::cli
