#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "expectation.h"
#include "foreshock/base/file.h"
#include "foreshock/server/alert_core/alert_engine.h"
#include "foreshock/server/scenario/healthy.h"
#include "foreshock/server/scenario/scenario.h"
#include "scenario_data.h"

namespace foreshock::scenario {
namespace {

using alert::AlertEvent;

// What a line says of a sample: its curve, with its noise.
std::optional<double> ValueOf(const Line& line, int64_t sample, int64_t step, uint32_t head) {
  const auto value = line.curve.Value(sample, [&] { return HealthyValue(line.signal, step, head); });
  if (!value || line.noise == 0) return value;
  return *value + line.noise * Noise(line.signal + 2000u, head, static_cast<uint64_t>(step));
}

class Samples {
 public:
  explicit Samples(const Scenario& scenario) : s_(scenario) {
    for (const StepEvents& at : s_.events) events_.emplace(at.step, &at);
    next_event_ = events_.begin();
  }

  detect::StepSample At(int64_t sample) {
    detect::StepSample out;
    out.step = s_.first_step + sample * s_.every;
    // Events between two samples are told with the later one, as they would be live.
    for (; next_event_ != events_.end() && next_event_->first <= out.step; ++next_event_) {
      const StepEvents& at = *next_event_->second;
      out.skipped = out.skipped || at.skipped;
      if (at.event) out.events.push_back(*at.event);
      silent_seconds_ = std::max(silent_seconds_, at.silent_seconds);
    }
    AddScalars(sample, &out);
    AddHeads(sample, &out);
    return out;
  }
  double TakeSilence() { return std::exchange(silent_seconds_, 0); }

 private:
  void AddScalars(int64_t sample, detect::StepSample* out) const {
    std::map<uint16_t, std::optional<double>> values;
    if (s_.healthy) {
      for (const uint16_t signal : HealthyScalars()) values[signal] = HealthyValue(signal, out->step, 0);
    }
    for (const Line& line : s_.lines) {
      if (line.scalar) values[line.signal] = ValueOf(line, sample, out->step, 0);
    }
    for (const auto& [signal, value] : values) {
      if (value) out->scalars.push_back({signal, *value});
    }
  }

  // Later lines win over earlier ones, as do all over the healthy background.
  void AddHeads(int64_t sample, detect::StepSample* out) const {
    std::set<uint16_t> signals;
    if (s_.healthy) signals.insert(HealthyHeadSignals().begin(), HealthyHeadSignals().end());
    for (const Line& line : s_.lines) {
      if (!line.scalar) signals.insert(line.signal);
    }
    for (const uint16_t signal : signals) {
      for (uint32_t layer = 0; layer < s_.model.layers; ++layer) {
        detect::SeriesSample series;
        series.signal = signal;
        series.layer = layer;
        for (uint32_t head = 0; head < s_.model.heads; ++head) {
          const auto value = HeadValue(signal, layer, head, sample, out->step);
          if (!value) continue;
          series.heads.push_back(head);
          series.values.push_back(*value);
        }
        if (!series.heads.empty()) out->series.push_back(std::move(series));
      }
    }
  }

  std::optional<double> HeadValue(uint16_t signal, uint32_t layer, uint32_t head, int64_t sample,
                                  int64_t step) const {
    const uint32_t index = layer * s_.model.heads + head;
    for (auto line = s_.lines.rbegin(); line != s_.lines.rend(); ++line) {
      const bool mine =
          line->signal == signal && line->layer.value_or(layer) == layer && line->head.value_or(head) == head;
      if (mine) return ValueOf(*line, sample, step, index);
    }
    return s_.healthy ? HealthyValue(signal, step, index) : std::nullopt;
  }

  const Scenario& s_;
  std::multimap<int64_t, const StepEvents*> events_;
  std::multimap<int64_t, const StepEvents*>::const_iterator next_event_;
  double silent_seconds_ = 0;
};

std::vector<AlertEvent> Play(const Scenario& scenario, const detect::UserRulesPtr& rules, int64_t* samples) {
  detect::RunInfo info = scenario.model;
  info.sample_every_steps = static_cast<uint32_t>(scenario.every);
  detect::DetectorOptions options;
  options.user_rules = rules;
  alert::AlertEngine engine(scenario.run, "1", info, options);
  Samples source(scenario);
  std::vector<AlertEvent> events;
  const auto take = [&](std::vector<AlertEvent> more) {
    for (AlertEvent& event : more) events.push_back(std::move(event));
  };
  *samples = (scenario.until - scenario.first_step + scenario.every - 1) / scenario.every;
  for (int64_t i = 0; i < *samples; ++i) {
    take(engine.Observe(source.At(i)));
    if (const double silence = source.TakeSilence(); silence > 0) take(engine.Tick(silence));
  }
  return events;
}

void Compare(const Scenario& scenario, Outcome* outcome) {
  std::set<std::string> spoken_of;
  for (const Expectation& e : scenario.expectations) {
    spoken_of.insert(e.rule);
    if (auto unmet = Unmet(e, outcome->events)) {
      outcome->failures.push_back({e.place.line, e.place.column, *std::move(unmet)});
    }
  }
  if (!scenario.nothing_else) return;
  for (const AlertEvent& event : outcome->events) {
    if (event.kind != AlertEvent::Kind::kFiring || spoken_of.contains(event.alert.rule)) continue;
    outcome->failures.push_back(
        {scenario.place.line, scenario.place.column,
         "expected nothing else to fire; it " + Describe(event) + ": " + event.alert.summary});
  }
}

Report PlayAll(ScenarioFile file, const detect::UserRulesPtr& rules) {
  Report report;
  CheckRuleNames(rules, &file);
  report.errors = std::move(file.errors);
  if (!report.errors.empty()) return report;
  for (const Scenario& scenario : file.scenarios) {
    Outcome outcome;
    outcome.name = scenario.name;
    outcome.line = scenario.place.line;
    outcome.events = Play(scenario, rules, &outcome.samples);
    Compare(scenario, &outcome);
    report.outcomes.push_back(std::move(outcome));
  }
  return report;
}

}  // namespace

Report RunScenarios(std::string_view text, const detect::UserRulesPtr& rules) {
  ScenarioFile file = ParseScenarioFile(text);
  if (!file.rules.empty()) {
    file.errors.push_back({file.rules_place.line, file.rules_place.column, "rules: needs the file's folder"});
  }
  return PlayAll(std::move(file), rules);
}

Result<Report> RunScenarioFile(const std::string& path, const detect::UserRulesPtr& given) {
  FS_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(PosixFileSystem(), path, uint64_t{1} << 26));
  ScenarioFile file = ParseScenarioFile(text);
  detect::UserRulesPtr rules = given;
  if (!file.rules.empty()) {
    const auto beside = std::filesystem::path(path).parent_path() / file.rules;
    const auto loaded = rules::LoadUserRules(beside.string());
    if (loaded.ok()) {
      rules = *loaded;
    } else {
      file.errors.push_back(
          {file.rules_place.line, file.rules_place.column, "rules: " + loaded.status().message()});
    }
  }
  return PlayAll(std::move(file), rules);
}

}  // namespace foreshock::scenario
