#include <cmath>
#include <map>

#include "foreshock/cli/number.h"
#include "foreshock/cli/render.h"
#include "foreshock/cli/table.h"
#include "names.h"

namespace foreshock::cli {
namespace {

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Why nobody is notified of it.
std::string Quieted(const v1::Alert& alert) {
  if (alert.has_acknowledgement()) return ", taken by " + Printable(alert.acknowledgement().author());
  return alert.silences_size() > 0 ? ", silenced" : "";
}

}  // namespace

std::string RenderAlerts(const v1::ListAlertsReply& reply, bool with_run, const Style& style) {
  if (reply.alerts_size() == 0) return "no alerts\n";
  std::vector<Table::Column> columns = {{"severity"}, {"state"}, {"rule"}, {"where"}};
  if (with_run) columns.insert(columns.begin(), {"run"});
  for (const char* title : {"first evidence", "fired", "resolved"}) columns.push_back({title, Align::kRight});
  columns.push_back({"summary"});
  Table table(std::move(columns));
  for (const v1::Alert& alert : reply.alerts()) {
    const bool firing = alert.state() == v1::ALERT_STATE_FIRING;
    std::vector<std::string> cells = {
        style(firing ? SeverityPaint(alert.severity()) : Paint::kPlain, SeverityName(alert.severity())),
        StateName(alert.state()) + Quieted(alert),
        Printable(alert.rule()),
        Place(alert),
        std::to_string(alert.first_step()),
        std::to_string(alert.fired_step()),
        alert.state() == v1::ALERT_STATE_RESOLVED ? std::to_string(alert.resolved_step()) : "-",
        Printable(alert.summary())};
    if (with_run) cells.insert(cells.begin(), Printable(alert.run()));
    table.AddRow(std::move(cells));
  }
  return table.Render(style);
}

std::string RenderAlertDetail(const v1::Alert& alert, const Style& style) {
  std::string out = AlertLine(alert, style);
  for (const v1::Evidence& evidence : alert.evidence()) {
    out += "  " + Printable(evidence.name()) + " = " + FormatNumber(evidence.value());
    if (evidence.has_baseline() && !std::isnan(evidence.baseline())) {
      out += " (usual: " + FormatNumber(evidence.baseline()) + ")";
    }
    out += "\n";
  }
  if (alert.last_checkpoint_step() >= 0) {
    out += "  last checkpoint before it: step " + std::to_string(alert.last_checkpoint_step());
    if (!alert.last_checkpoint().empty()) out += ", " + Printable(alert.last_checkpoint());
    out += "\n";
  }
  if (!alert.labels().empty()) {
    const std::map<std::string, std::string> sorted(alert.labels().begin(), alert.labels().end());
    out += "  labels:";
    for (const auto& [name, value] : sorted) out += " " + Printable(name) + "=" + Printable(value);
    out += "\n";
  }
  if (alert.has_acknowledgement()) {
    const v1::Acknowledgement& by = alert.acknowledgement();
    out += "  taken by " + Printable(by.author()) +
           (by.comment().empty() ? "" : ": " + Printable(by.comment())) + " (silence " +
           Printable(by.silence()) + ")\n";
  }
  for (const std::string& id : alert.silences()) out += "  silenced by " + Printable(id) + "\n";
  if (alert.state() == v1::ALERT_STATE_FIRING) out += "  id: " + Printable(alert.id()) + "\n";
  if (!alert.advice().empty()) out += "  do: " + Printable(alert.advice()) + "\n";
  return out;
}

std::string AlertLine(const v1::Alert& alert, const Style& style) {
  const bool resolved = alert.state() == v1::ALERT_STATE_RESOLVED;
  std::string word = Upper(SeverityName(alert.severity()));
  word.resize(10, ' ');
  std::string out = style(resolved ? Paint::kGreen : SeverityPaint(alert.severity()), word);
  out += "step " + std::to_string(resolved ? alert.resolved_step() : alert.fired_step());
  out += resolved ? "  resolved: " : "  ";
  out += Printable(alert.rule());
  const std::string place = Place(alert);
  if (!place.empty()) out += "  " + place;
  if (!alert.summary().empty()) out += "  " + Printable(alert.summary());
  return out + "\n";
}

std::string RenderActions(const v1::ListActionsReply& reply, const Style& style) {
  Table table({{"action"},
               {"state"},
               {"step", Align::kRight},
               {"by"},
               {"logit before", Align::kRight},
               {"after", Align::kRight},
               {"detail"}});
  for (const v1::ActionRecord& record : reply.actions()) {
    const bool both = !record.detail().empty() && !record.note().empty();
    const std::string detail = record.detail() + (both ? "; " : "") + record.note();
    const auto logit = [](bool has, float value) {
      return FormatNumber(has ? std::optional<double>(value) : std::nullopt);
    };
    table.AddRow({Printable(record.action().kind()), StateName(record.state()),
                  std::to_string(record.state_step()), Printable(record.action().issuer()),
                  logit(record.has_logit_before(), record.logit_before()),
                  logit(record.has_logit_after(), record.logit_after()), Printable(detail)});
  }
  return table.empty() ? "" : table.Render(style);
}

std::string EventLine(const v1::Event& event, const Style& style) {
  std::string out = style(Paint::kCyan, "event     ") + "step " + std::to_string(event.step()) + "  ";
  if (event.kind() == v1::EVENT_KIND_ACTION) {
    out += Printable(event.action()) + " " + StateName(event.action_state());
    if (event.has_logit_before() && event.has_logit_after()) {
      out += ", largest logit " + FormatNumber(event.logit_before()) + " -> " +
             FormatNumber(event.logit_after());
    }
  } else {
    out += KindName(event.kind());
  }
  if (event.layers_size() > 0) {
    out += " layers";
    for (const uint32_t layer : event.layers()) out += " " + std::to_string(layer);
  }
  if (!event.detail().empty()) out += ": " + Printable(event.detail());
  return out + "\n";
}

}  // namespace foreshock::cli
