#include "sections.h"

#include <algorithm>

#include "html.h"
#include "words.h"

namespace foreshock::report {
namespace {

std::string AlertCell(const alert::AlertRecord* record) {
  if (record == nullptr) return "–";
  const alert::Alert& a = record->alert;
  std::string text = StepText(a.fired_step) + "<small>" + Escape(a.rule);
  if (a.layer >= 0) text += ", " + HeadText(a.layer, a.head);
  return text + "</small>";
}

// "fault delta:0.01", as a note of the trainer told it at its first step.
std::string Fault(const RunData& run) {
  for (const wire::Event& event : run.events) {
    if (event.kind != wire::EventKind::kNote || !event.detail.starts_with("fault ")) continue;
    return "<small>" + Escape(event.detail) + " from step " + StepText(event.step) + "</small>";
  }
  return "";
}

std::string EvidenceText(const alert::Alert& a) {
  std::string text;
  for (const detect::Evidence& e : a.evidence) {
    text += "<div>" + Escape(e.name) + " <b>" + Number(e.value) + "</b>";
    if (e.baseline == e.baseline) text += " <span class=\"dim\">normal " + Number(e.baseline) + "</span>";
    text += "</div>";
  }
  return text;
}

std::string AlertRow(const alert::AlertRecord& record) {
  const alert::Alert& a = record.alert;
  std::string resolved = "firing";
  if (a.state == alert::AlertState::kResolved) {
    resolved = StepText(a.resolved_step);
    if (!record.resolved_because.empty())
      resolved += "<small>" + Escape(record.resolved_because) + "</small>";
  }
  std::string checkpoint = "–";
  if (a.last_checkpoint_step) {
    checkpoint = StepText(*a.last_checkpoint_step) + "<small>" + Escape(record.last_checkpoint) + "</small>";
  }
  const std::string severity(detect::SeverityName(a.severity));
  return "<tr><td>" + Badge(severity, severity) + "</td><td><b>" + Escape(a.rule) + "</b><small>" +
         HeadText(a.layer, a.head) + "</small></td><td class=\"n\">" + StepText(a.first_evidence_step) +
         "</td><td class=\"n\">" + StepText(a.fired_step) + "</td><td class=\"n\">" + resolved +
         "</td><td class=\"what\">" + Escape(a.summary) + "<small>" + Escape(a.advice) +
         "</small></td><td class=\"evidence\">" + EvidenceText(a) + "</td><td class=\"n\">" + checkpoint +
         "</td></tr>\n";
}

std::string ActionRow(const std::string& run, const v1::ActionRecord& record) {
  return "<tr><td>" + Escape(run) + "</td><td><b>" + Escape(record.action().kind()) + "</b></td><td>" +
         LayersText(record.action().layers()) + "</td><td>" + Escape(record.action().issuer()) + "<small>" +
         Escape(record.action().reason()) + "</small></td><td>" + StateName(record.state()) + "<small>" +
         Escape(record.detail()) + "</small></td><td class=\"n\">" + StepText(record.state_step()) +
         "</td><td class=\"n\">" + EffectText(record) + "</td></tr>\n";
}

}  // namespace

std::string Summary(const std::vector<RunData>& runs) {
  std::string out =
      "<section><h2>Summary</h2><div class=\"wide\"><table><thead><tr><th>run</th><th>state</th>"
      "<th class=\"n\">last step</th><th class=\"n\">loss</th><th class=\"n\">best</th><th class=\"n\">first "
      "warning</th>"
      "<th class=\"n\">first critical</th><th>verdict</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunData& run = runs[i];
    out += "<tr><td><span class=\"key\" data-run=\"" + std::to_string(i) + "\"></span><b>" +
           Escape(run.run()) + "</b><small>attempt " + Escape(run.attempt.attempt);
    if (run.earlier_attempts > 0) out += ", " + std::to_string(run.earlier_attempts) + " earlier not shown";
    out += "</small>" + Fault(run) + "</td><td>" + StateName(run.state) + "</td><td class=\"n\">" +
           StepText(run.attempt.last_step) + "</td><td class=\"n\">" + Number(run.story.smoothed) +
           "</td><td class=\"n\">" + Number(run.story.best) + "</td><td class=\"n\">" +
           AlertCell(run.First(detect::Severity::kWarning)) + "</td><td class=\"n\">" +
           AlertCell(run.First(detect::Severity::kCritical)) + "</td><td>" + Verdict(run) + "</td></tr>\n";
  }
  return out +
         "</tbody></table></div><p class=\"dim\">Loss and best are smoothed (EMA, 0.1 a sample). Collapsed: "
         "the smoothed "
         "loss stays more than 0.5 above its best to the end, after the run had learned.</p></section>\n";
}

std::string LossSection(const std::vector<RunData>& runs) {
  if (std::all_of(runs.begin(), runs.end(), [](const RunData& run) { return run.loss.empty(); })) return "";
  return "<section><h2>Loss</h2><div class=\"legend\" id=\"loss-legend\"></div>"
         "<div class=\"chart tall\" id=\"loss\"></div><p class=\"dim\">Marks: C critical alert, W warning, G "
         "guard, A "
         "action, ✕ collapse; point at one for its text. Drag to zoom, double-click to see "
         "everything.</p></section>\n";
}

std::string HeadSections(const std::vector<RunData>& runs, const std::vector<HeadPanel>& panels) {
  std::string out;
  for (size_t p = 0; p < panels.size(); ++p) {
    const HeadPanel& panel = panels[p];
    if (panel.signals.empty()) continue;
    const std::string& run = runs[panel.run].run();
    out += "<section><h2>Layer " + std::to_string(panel.layer) + ", head " + std::to_string(panel.head) +
           "</h2><p class=\"dim\">In " + Escape(run) + " " + Escape(panel.why) +
           ". Coloured: this head in each run. Grey: the median of its layer in " + Escape(run) +
           ". Dashed: the first critical alert of a run.</p><div class=\"grid\">\n";
    for (size_t s = 0; s < panel.signals.size(); ++s) {
      const HeadSignal& signal = panel.signals[s];
      out += "<figure><figcaption><b>" + Escape(signal.name) + "</b> " + Escape(signal.meaning) +
             (signal.unit == "1" ? "" : " (" + Escape(signal.unit) + ")") +
             "</figcaption><div class=\"chart\" data-panel=\"" + std::to_string(p) + "\" data-signal=\"" +
             std::to_string(s) + "\"></div></figure>\n";
    }
    out += "</div></section>\n";
  }
  return out;
}

std::string MapSection(const std::vector<RunData>& runs) {
  std::string options;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (size_t m = 0; m < runs[i].maps.size(); ++m) {
      options += "<option value=\"" + std::to_string(i) + "/" + std::to_string(m) + "\">" +
                 Escape(runs[i].run()) + ": " + Escape(runs[i].maps[m].name) + "</option>";
    }
  }
  if (options.empty()) return "";
  return "<section><h2>Layers and heads over time</h2><div class=\"controls\"><select id=\"map-select\" "
         "aria-label=\"run and signal\">" +
         options +
         "</select><input type=\"range\" id=\"map-step\" min=\"0\" value=\"0\" aria-label=\"step\"><output "
         "id=\"map-output\"></output></div><div id=\"map\" class=\"wide\"></div><div id=\"map-scale\"></div>"
         "<h3>At a glance</h3><div id=\"map-small\" class=\"small-maps\"></div></section>\n";
}

std::string AlertTable(const std::vector<RunData>& runs) {
  std::string out = "<section><h2>Alerts</h2>\n";
  for (const RunData& run : runs) {
    out += "<h3>" + Escape(run.run()) + "</h3>\n";
    if (run.alerts.empty()) {
      out += "<p class=\"dim\">none</p>\n";
      continue;
    }
    out +=
        "<div class=\"wide\"><table><thead><tr><th></th><th>rule</th><th class=\"n\">evidence from</th>"
        "<th class=\"n\">fired</th><th class=\"n\">resolved</th><th>what, and what to "
        "do</th><th>evidence</th>"
        "<th class=\"n\">checkpoint before</th></tr></thead><tbody>\n";
    for (const alert::AlertRecord& record : run.alerts) out += AlertRow(record);
    out += "</tbody></table></div>\n";
  }
  return out + "</section>\n";
}

std::string ActionTable(const std::vector<RunData>& runs) {
  std::string rows;
  for (const RunData& run : runs) {
    for (const v1::ActionRecord& record : run.actions) rows += ActionRow(run.run(), record);
    for (const wire::Event& event : run.events) {
      if (event.kind != wire::EventKind::kGuard) continue;
      rows += "<tr><td>" + Escape(run.run()) + "</td><td><b>guard</b></td><td>" + LayersText(event.layers) +
              "</td><td>the trainer's guard</td><td>" + Escape(event.detail) + "</td><td class=\"n\">" +
              StepText(event.step) + "</td><td class=\"n\">" + EffectText(event) + "</td></tr>\n";
    }
  }
  if (rows.empty()) return "";
  return "<section><h2>Actions and what they did</h2><div "
         "class=\"wide\"><table><thead><tr><th>run</th><th>action</th>"
         "<th>layers</th><th>by</th><th>state</th><th class=\"n\">step</th><th class=\"n\">largest "
         "logit</th></tr>"
         "</thead><tbody>\n" +
         rows + "</tbody></table></div></section>\n";
}

}  // namespace foreshock::report
