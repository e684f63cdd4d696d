#include "page_data.h"

#include "foreshock/json/writer.h"

namespace foreshock::report {
namespace {

using json::Writer;

void PutPoints(const std::vector<Point>& points, const char* steps, const char* values, Writer* out) {
  out->Key(steps).BeginArray();
  for (const Point& point : points) out->Int(point.step);
  out->EndArray().Key(values).BeginArray();
  for (const Point& point : points) out->Float(point.value);
  out->EndArray();
}

void PutMark(int64_t step, std::string_view kind, std::string_view text, Writer* out) {
  out->BeginObject().Key("step").Int(step).Key("kind").String(kind).Key("text").String(text).EndObject();
}

// What is pinned to the loss: alerts that fired, the guard, actions, the collapse.
void PutMarks(const RunData& run, Writer* out) {
  out->Key("marks").BeginArray();
  for (const alert::AlertRecord& record : run.alerts) {
    const alert::Alert& a = record.alert;
    PutMark(a.fired_step, detect::SeverityName(a.severity), a.rule + ": " + a.summary, out);
  }
  for (const wire::Event& event : run.events) {
    if (event.kind == wire::EventKind::kGuard) PutMark(event.step, "guard", "guard " + event.detail, out);
    if (event.kind == wire::EventKind::kResume) PutMark(event.step, "note", "resumed " + event.detail, out);
    if (event.kind == wire::EventKind::kPhase) PutMark(event.step, "note", "phase " + event.detail, out);
  }
  for (const v1::ActionRecord& record : run.actions) {
    for (const v1::Event& event : record.history()) {
      if (event.action_state() == v1::ACTION_STATE_TAKEN) {
        PutMark(event.step(), "action", record.action().kind() + " taken", out);
      }
    }
  }
  if (run.story.collapse_step) PutMark(*run.story.collapse_step, "collapse", "the loss has collapsed", out);
  out->EndArray();
}

void PutMap(const HeatMap& map, Writer* out) {
  out->BeginObject().Key("name").String(map.name).Key("meaning").String(map.meaning);
  out->Key("heads").Uint(map.heads).Key("layers").BeginArray();
  for (const uint32_t layer : map.layers) out->Uint(layer);
  out->EndArray().Key("steps").BeginArray();
  for (const int64_t step : map.steps) out->Int(step);
  out->EndArray().Key("values").BeginArray();
  for (const std::optional<float>& value : map.values) {
    if (value) {
      out->Float(*value);
    } else {
      out->Null();
    }
  }
  out->EndArray().EndObject();
}

void PutRun(const ReportOptions& options, const RunData& run, Writer* out) {
  out->BeginObject().Key("run").String(run.run());
  PutPoints(Thin(run.loss, options.max_loss_points), "lossSteps", "loss", out);
  PutMarks(run, out);
  out->Key("maps").BeginArray();
  for (const HeatMap& map : run.maps) PutMap(map, out);
  out->EndArray().EndObject();
}

void PutPanel(const HeadPanel& panel, Writer* out) {
  out->BeginObject().Key("layer").Uint(panel.layer).Key("head").Uint(panel.head).Key("signals").BeginArray();
  for (const HeadSignal& signal : panel.signals) {
    out->BeginObject().Key("name").String(signal.name);
    PutPoints(signal.median, "medianSteps", "median", out);
    out->Key("lines").BeginArray();
    for (size_t i = 0; i < signal.runs.size(); ++i) {
      if (signal.runs[i].empty()) continue;
      out->BeginObject().Key("run").Uint(i);
      PutPoints(signal.runs[i], "steps", "values", out);
      out->EndObject();
    }
    out->EndArray().EndObject();
  }
  out->EndArray().EndObject();
}

}  // namespace

std::string PageData(const ReportOptions& options, const std::vector<RunData>& runs,
                     const std::vector<HeadPanel>& panels) {
  Writer out;
  out.BeginObject().Key("runs").BeginArray();
  for (const RunData& run : runs) PutRun(options, run, &out);
  out.EndArray().Key("panels").BeginArray();
  for (const HeadPanel& panel : panels) PutPanel(panel, &out);
  out.EndArray().EndObject();
  std::string safe;
  for (const char c : out.text()) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe.push_back(c);
    }
  }
  return safe;
}

}  // namespace foreshock::report
