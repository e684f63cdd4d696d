#include "scenario.h"

#include <algorithm>
#include <cmath>

#include "foreshock/base/catalogue.h"

namespace foreshock::alert {
namespace {

constexpr uint16_t kScalarSignals[] = {kLoss, kGradNorm, kLossScale, kStepSeconds};

bool Matches(const AlertEvent& event, std::string_view rule, std::optional<detect::Severity> severity) {
  return event.alert.rule == rule && (!severity || event.alert.severity == *severity);
}

}  // namespace

Scenario::Scenario(Shape shape) : shape_(shape) {}

Scenario& Scenario::Scalar(uint16_t signal, Curve curve) {
  scalars_[signal] = std::move(curve);
  return *this;
}

Scenario& Scenario::Head(uint16_t signal, uint32_t layer, uint32_t head, Curve curve) {
  heads_[{signal, layer * shape_.heads + head}] = std::move(curve);
  return *this;
}

Scenario& Scenario::AllHeads(uint16_t signal, Curve curve) {
  all_heads_[signal] = std::move(curve);
  return *this;
}

Scenario& Scenario::Scale(uint16_t signal, uint32_t layer, uint32_t head,
                          std::function<double(double)> factor) {
  factors_[{signal, layer * shape_.heads + head}] = std::move(factor);
  return *this;
}

Scenario& Scenario::Without(uint16_t signal) {
  without_.push_back(signal);
  return *this;
}

Scenario& Scenario::Event(int64_t step, detect::StepEvent::Kind kind, int32_t layer, std::string text) {
  events_.insert({step, {kind, layer, std::move(text)}});
  return *this;
}

Scenario& Scenario::Skip(std::function<bool(double)> skipped) {
  skipped_ = std::move(skipped);
  return *this;
}

void Scenario::AddScalars(int64_t step, detect::StepSample* sample) const {
  const auto t = static_cast<double>(step);
  for (const uint16_t signal : kScalarSignals) {
    std::optional<double> value;
    if (const auto it = scalars_.find(signal); it != scalars_.end()) {
      value = it->second(t);
    } else {
      value = scenario::HealthyValue(signal, step, 0);
    }
    if (value) sample->scalars.push_back({signal, *value});
  }
}

std::optional<double> Scenario::Value(uint16_t signal, uint32_t head, int64_t step) const {
  const auto t = static_cast<double>(step);
  if (const auto it = heads_.find({signal, head}); it != heads_.end()) return it->second(t);
  if (const auto it = all_heads_.find(signal); it != all_heads_.end()) return it->second(t);
  auto value = scenario::HealthyValue(signal, step, head);
  const auto factor = factors_.find({signal, head});
  if (value && factor != factors_.end()) *value *= factor->second(t);
  return value;
}

void Scenario::AddHeads(int64_t step, detect::StepSample* sample) const {
  for (const uint16_t signal : scenario::HealthyHeadSignals()) {
    if (std::find(without_.begin(), without_.end(), signal) != without_.end()) continue;
    for (uint32_t layer = 0; layer < shape_.layers; ++layer) {
      detect::SeriesSample series;
      series.signal = signal;
      series.layer = layer;
      for (uint32_t head = 0; head < shape_.heads; ++head) {
        const auto value = Value(signal, layer * shape_.heads + head, step);
        if (!value) continue;
        series.heads.push_back(head);
        series.values.push_back(*value);
      }
      if (!series.heads.empty()) sample->series.push_back(std::move(series));
    }
  }
}

std::vector<detect::StepSample> Scenario::Samples() const {
  std::vector<detect::StepSample> samples;
  for (int64_t step = shape_.first; step < shape_.steps; step += shape_.every) {
    detect::StepSample sample;
    sample.step = step;
    sample.skipped = skipped_ && skipped_(static_cast<double>(step));
    for (auto [it, end] = events_.equal_range(step); it != end; ++it) sample.events.push_back(it->second);
    AddScalars(step, &sample);
    AddHeads(step, &sample);
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::vector<AlertEvent> Scenario::Play() const {
  detect::RunInfo info;
  info.layers = shape_.layers;
  info.heads = shape_.heads;
  info.head_dim = shape_.head_dim;
  info.sample_every_steps = shape_.every;
  info.qk_norm = shape_.qk_norm;
  AlertEngine engine("scenario", "1", info);
  std::vector<AlertEvent> events;
  for (const detect::StepSample& sample : Samples()) {
    for (AlertEvent& event : engine.Observe(sample)) events.push_back(std::move(event));
  }
  return events;
}

const AlertEvent* FirstFiring(const std::vector<AlertEvent>& events, std::string_view rule,
                              std::optional<detect::Severity> severity) {
  for (const AlertEvent& event : events) {
    if (event.kind == AlertEvent::Kind::kFiring && Matches(event, rule, severity)) return &event;
  }
  return nullptr;
}

bool FiresAtEnd(const std::vector<AlertEvent>& events, std::string_view rule,
                std::optional<detect::Severity> severity) {
  bool firing = false;
  for (const AlertEvent& event : events) {
    if (Matches(event, rule, severity)) firing = event.kind == AlertEvent::Kind::kFiring;
  }
  return firing;
}

std::string Dump(const std::vector<AlertEvent>& events) {
  std::string text;
  for (const AlertEvent& event : events) text += AlertEventToJsonLine(event) + "\n";
  return text;
}

}  // namespace foreshock::alert
