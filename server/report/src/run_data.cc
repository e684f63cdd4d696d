#include "run_data.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "foreshock/base/catalogue.h"

namespace foreshock::report {
namespace {

constexpr int64_t kLossSampleSteps = 10;  // the SDK's own sampling interval, as in `foreshock summary`
constexpr uint16_t kHeadSignals[] = {kQkSigma1,        kLogitMax,          kSaturatedRowFraction,
                                     kTiedRowFraction, kUpdateSignMean1,   kEntropyMean,
                                     kDeltaError,      kOutputRoundingBias};
constexpr uint16_t kMapSignals[] = {kLogitMax, kQkSigma1, kSaturatedRowFraction};
constexpr size_t kMaxMapSteps = 48;
constexpr size_t kMinMapSteps = 8;
constexpr size_t kMaxPanels = 3;

Result<std::vector<Point>> ReadLoss(const store::Store& store, const store::AttemptInfo& attempt) {
  store::SeriesQuery query;
  query.run = attempt.run;
  query.attempt = attempt.attempt;
  query.signal = kLoss;
  std::vector<Point> points;
  FS_RETURN_IF_ERROR(store.ReadSeries(query, [&](const store::SeriesPoint& point) {
    if (point.series.has(0) && !point.series.values.empty())
      points.push_back({point.step, point.series.values[0]});
    return true;
  }));
  return points;
}

std::optional<float> Shown(const SignalInfo& info, const wire::Series& series, size_t i) {
  if (!series.has(i) || series.values_per_head != 1 || i >= series.values.size()) return std::nullopt;
  const auto value = DisplayValue(info, series.values[i], series.weight(i));
  if (!value) return std::nullopt;
  return static_cast<float>(*value);
}

float Median(std::vector<float> values) {
  std::erase_if(values, [](float v) { return std::isnan(v); });
  if (values.empty()) return std::nanf("");
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

store::SeriesQuery QueryOf(const store::AttemptInfo& attempt, uint16_t signal, size_t max_points) {
  store::SeriesQuery query;
  query.run = attempt.run;
  query.attempt = attempt.attempt;
  query.signal = signal;
  query.max_points = max_points;
  return query;
}

// Adds a run's line, and with `median` the median of the layer.
Status AddRun(const ReportOptions& options, const store::AttemptInfo& attempt, const SignalInfo& info,
              const HeadPanel& panel, bool median, HeadSignal* out) {
  std::vector<Point>& line = out->runs.emplace_back();
  store::SeriesQuery query = QueryOf(attempt, info.id, options.max_signal_points);
  query.layer = panel.layer;
  return options.store->ReadSeries(query, [&](const store::SeriesPoint& point) {
    std::vector<float> all;
    for (size_t i = 0; i < point.series.heads.size(); ++i) {
      const auto value = Shown(info, point.series, i);
      if (!value) continue;
      all.push_back(*value);
      if (point.series.heads[i] == panel.head) line.push_back({point.step, *value});
    }
    if (median && !all.empty()) out->median.push_back({point.step, Median(std::move(all))});
    return true;
  });
}

Status ReadSignals(const ReportOptions& options, const std::vector<RunData>& runs, HeadPanel* panel) {
  for (const uint16_t id : kHeadSignals) {
    const SignalInfo& info = *FindSignal(id);
    HeadSignal signal{std::string(info.name), std::string(info.unit), std::string(info.meaning), {}, {}};
    for (size_t i = 0; i < runs.size(); ++i) {
      FS_RETURN_IF_ERROR(AddRun(options, runs[i].attempt, info, *panel, i == panel->run, &signal));
    }
    const bool any =
        std::any_of(signal.runs.begin(), signal.runs.end(), [](const auto& line) { return !line.empty(); });
    if (any) panel->signals.push_back(std::move(signal));
  }
  return OkStatus();
}

// Shape of the model; layers that measure nothing count too, so that the map shows them as missing.
void SetShape(const store::AttemptInfo& attempt, HeatMap* map) {
  for (const store::SourceInfo& source : attempt.sources) {
    for (const wire::Layer& layer : source.hello->model.layers) {
      map->layers.push_back(layer.layer);
      map->heads = std::max(map->heads, layer.query_heads);
    }
  }
  std::sort(map->layers.begin(), map->layers.end());
  map->layers.erase(std::unique(map->layers.begin(), map->layers.end()), map->layers.end());
}

Result<HeatMap> ReadMap(const ReportOptions& options, const store::AttemptInfo& attempt,
                        const SignalInfo& info) {
  HeatMap map;
  map.name = info.name;
  map.meaning = info.meaning;
  SetShape(attempt, &map);
  const size_t cells = map.layers.size() * map.heads;
  if (cells == 0) return map;
  const size_t steps = std::clamp(options.max_map_cells / cells, kMinMapSteps, kMaxMapSteps);
  FS_RETURN_IF_ERROR(
      options.store->ReadSeries(QueryOf(attempt, info.id, steps), [&](const store::SeriesPoint& point) {
        if (!point.series.layer) return true;
        if (map.steps.empty() || map.steps.back() != point.step) {
          map.steps.push_back(point.step);
          map.values.resize(map.steps.size() * cells);
        }
        const auto row = std::lower_bound(map.layers.begin(), map.layers.end(), *point.series.layer);
        if (row == map.layers.end() || *row != *point.series.layer) return true;
        const size_t base =
            (map.steps.size() - 1) * cells + static_cast<size_t>(row - map.layers.begin()) * map.heads;
        for (size_t i = 0; i < point.series.heads.size(); ++i) {
          if (point.series.heads[i] < map.heads)
            map.values[base + point.series.heads[i]] = Shown(info, point.series, i);
        }
        return true;
      }));
  return map;
}

// The head that the worst alert of a run names: critical before warning, qk_runaway before others, early
// before late.
std::optional<HeadPanel> NamedHead(const RunData& run) {
  for (const auto severity : {detect::Severity::kCritical, detect::Severity::kWarning}) {
    for (const bool runaway : {true, false}) {
      for (const alert::AlertRecord& record : run.alerts) {
        const alert::Alert& a = record.alert;
        if (a.severity != severity || a.layer < 0 || a.head < 0 || (a.rule == "qk_runaway") != runaway)
          continue;
        return HeadPanel{
            static_cast<uint32_t>(a.layer), static_cast<uint32_t>(a.head), 0, a.rule + " names it", {}};
      }
    }
  }
  return std::nullopt;
}

std::optional<HeadPanel> LargestHead(const RunData& run) {
  std::optional<HeadPanel> best;
  float largest = 0;
  for (const HeatMap& map : run.maps) {
    const size_t cells = map.layers.size() * map.heads;
    for (size_t i = 0; map.name == "logit_max" && i < cells; ++i) {
      const auto& value = map.values[(map.steps.size() - 1) * cells + i];
      if (!value || (best && !(*value > largest))) continue;
      largest = *value;
      best = HeadPanel{map.layers[i / map.heads],
                       static_cast<uint32_t>(i % map.heads),
                       0,
                       "its logits are the largest at the end",
                       {}};
    }
  }
  return best;
}

Status ReadAlertsAndActions(const ReportOptions& options, RunData* data) {
  FS_ASSIGN_OR_RETURN(data->alerts, options.alerts->OfRun(data->run()));
  std::erase_if(data->alerts,
                [&](const auto& record) { return record.alert.attempt != data->attempt.attempt; });
  std::stable_sort(data->alerts.begin(), data->alerts.end(),
                   [](const auto& a, const auto& b) { return a.alert.fired_step < b.alert.fired_step; });
  if (!options.actions) return OkStatus();
  v1::ListActionsRequest request;
  request.set_run(data->run());
  FS_ASSIGN_OR_RETURN(const v1::ListActionsReply reply, options.actions(request));
  for (const v1::ActionRecord& record : reply.actions()) {
    if (record.action().attempt() == data->attempt.attempt) data->actions.push_back(record);
  }
  return OkStatus();
}

}  // namespace

const alert::AlertRecord* RunData::First(detect::Severity severity) const {
  for (const alert::AlertRecord& record : alerts) {
    if (record.alert.severity >= severity) return &record;
  }
  return nullptr;
}

Result<RunData> ReadRun(const ReportOptions& options, const std::string& run) {
  FS_ASSIGN_OR_RETURN(const store::RunInfo info, options.store->GetRun(run));
  RunData data;
  data.attempt = info.newest();
  data.earlier_attempts = info.attempts.size() - 1;
  data.state =
      store::StateOf(data.attempt, options.clock->WallNanos(),
                     static_cast<int64_t>(options.silent_after_seconds * 1e9), options.store->listening());
  FS_ASSIGN_OR_RETURN(data.loss, ReadLoss(*options.store, data.attempt));
  data.story = TellLoss(data.loss, kLossSampleSteps);
  FS_RETURN_IF_ERROR(ReadAlertsAndActions(options, &data));
  FS_ASSIGN_OR_RETURN(const auto events, options.store->ReadEvents(run, data.attempt.attempt));
  for (const store::StoredEvent& stored : events) data.events.push_back(stored.event);
  for (const uint16_t signal : kMapSignals) {
    FS_ASSIGN_OR_RETURN(HeatMap map, ReadMap(options, data.attempt, *FindSignal(signal)));
    if (!map.steps.empty()) data.maps.push_back(std::move(map));
  }
  return data;
}

Result<std::vector<HeadPanel>> ReadPanels(const ReportOptions& options, const std::vector<RunData>& runs) {
  std::vector<HeadPanel> panels;
  for (size_t i = 0; i < runs.size() && panels.size() < kMaxPanels; ++i) {
    auto panel = NamedHead(runs[i]);
    if (!panel) continue;
    panel->run = i;
    const bool known = std::any_of(panels.begin(), panels.end(), [&](const HeadPanel& other) {
      return other.layer == panel->layer && other.head == panel->head;
    });
    if (!known) panels.push_back(*std::move(panel));
  }
  if (panels.empty()) {
    if (auto panel = LargestHead(runs[0])) panels.push_back(*std::move(panel));
  }
  for (HeadPanel& panel : panels) FS_RETURN_IF_ERROR(ReadSignals(options, runs, &panel));
  return panels;
}

}  // namespace foreshock::report
