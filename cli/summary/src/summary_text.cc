#include <functional>

#include "foreshock/cli/number.h"
#include "foreshock/cli/render.h"
#include "foreshock/cli/summary.h"
#include "foreshock/cli/table.h"
#include "foreshock/json/writer.h"

namespace foreshock::cli {
namespace {

std::string Step(std::optional<int64_t> step) { return step ? "step " + std::to_string(*step) : "-"; }

std::string Fault(const RunSummary& s) {
  if (s.fault.empty()) return "not told";
  return Printable(s.fault) + (s.onset_step ? " from step " + std::to_string(*s.onset_step) : "");
}

std::string Critical(const RunSummary& s) {
  const std::optional<int64_t> step =
      s.lasting_critical_step ? s.lasting_critical_step : s.first_critical_step;
  if (!step) return "none";
  std::string text = Step(step);
  if (!s.lasting_critical_step) text += s.collapse_step ? " (did not last)" : " (resolved)";
  return text;
}

std::string CriticalRule(const RunSummary& s) {
  if (s.critical_rule.empty()) return "-";
  return Printable(s.critical_rule) + (s.critical_place.empty() ? "" : ", " + s.critical_place);
}

std::string Lead(const RunSummary& s) {
  const std::optional<int64_t> lead = s.lead_steps();
  if (!lead) return "-";
  std::string text = std::to_string(*lead) + " steps";
  if (const std::optional<double> share = s.lead_share()) {
    text += " (" + FormatNumber(static_cast<int>(*share * 100 + 0.5)) + " % of onset to collapse)";
  }
  return text;
}

std::string PaintedVerdict(const RunSummary& s, const Style& style) {
  const bool good = s.verdict == Verdict::kHealthy || s.verdict == Verdict::kContained;
  std::string text = VerdictName(s.verdict);
  for (char& c : text) c = c == '_' ? ' ' : c;
  text = style(good ? Paint::kGreen : Paint::kRed, text);
  return s.why.empty() ? text : text + ": " + Printable(s.why);
}

void Put(json::Writer* out, const char* key, std::optional<int64_t> value) {
  out->Key(key);
  if (value) {
    out->Int(*value);
  } else {
    out->Null();
  }
}
void Put(json::Writer* out, const char* key, std::optional<double> value) {
  out->Key(key);
  if (value) {
    out->Double(*value);
  } else {
    out->Null();
  }
}

}  // namespace

std::string RenderSummaries(const std::vector<RunSummary>& summaries, const Style& style) {
  std::vector<Table::Column> columns = {{""}};
  for (const RunSummary& s : summaries) columns.push_back({Printable(s.run)});
  Table table(std::move(columns));
  const auto row = [&](const char* title, const std::function<std::string(const RunSummary&)>& cell) {
    std::vector<std::string> cells = {title};
    for (const RunSummary& s : summaries) cells.push_back(cell(s));
    table.AddRow(std::move(cells));
  };
  row("state", [](const RunSummary& s) { return StateName(s.state) + " at " + Step(s.last_step); });
  row("fault", Fault);
  row("final loss", [](const RunSummary& s) { return FormatNumber(s.final_loss); });
  row("first warning", [](const RunSummary& s) { return Step(s.first_warning_step); });
  row("critical", Critical);
  row("  by", CriticalRule);
  row("guard on", [](const RunSummary& s) { return Step(s.guard_step); });
  row("collapse", [](const RunSummary& s) { return s.collapse_step ? Step(s.collapse_step) : "none"; });
  row("lead", Lead);
  row("verdict", [&](const RunSummary& s) { return PaintedVerdict(s, style); });
  return table.Render(style);
}

std::string SummariesToJson(const std::vector<RunSummary>& summaries) {
  json::Writer out;
  out.BeginObject().Key("runs").BeginArray();
  for (const RunSummary& s : summaries) {
    out.BeginObject().Key("run").String(s.run).Key("state").String(StateName(s.state));
    out.Key("fault").String(s.fault);
    Put(&out, "onset_step", s.onset_step);
    Put(&out, "last_step", s.last_step);
    Put(&out, "final_loss", s.final_loss);
    Put(&out, "minimum_loss", s.minimum_loss);
    Put(&out, "collapse_step", s.collapse_step);
    Put(&out, "first_warning_step", s.first_warning_step);
    Put(&out, "first_critical_step", s.first_critical_step);
    Put(&out, "lasting_critical_step", s.lasting_critical_step);
    out.Key("critical_at_end").Bool(s.critical_at_end);
    out.Key("critical_rule").String(s.critical_rule).Key("critical_place").String(s.critical_place);
    Put(&out, "guard_step", s.guard_step);
    Put(&out, "lead_steps", s.lead_steps());
    Put(&out, "lead_share", s.lead_share());
    out.Key("verdict").String(VerdictName(s.verdict)).Key("why").String(s.why).EndObject();
  }
  out.EndArray().EndObject();
  return out.Take();
}

}  // namespace foreshock::cli
