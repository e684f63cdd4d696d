// "Load these series, expect these alerts" in C++: the healthy run of server/scenario, in which a test bends
// what it is about. Where values can be written down, a scenario file (tests/scenarios) says the same in
// fewer words.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/server/alert_core/alert_engine.h"
#include "foreshock/server/scenario/healthy.h"

namespace foreshock::alert {

class Scenario {
 public:
  // A value over time; t is the step. nullopt: missing.
  using Curve = std::function<std::optional<double>(double t)>;

  struct Shape {
    uint32_t layers = 2, heads = 4, head_dim = 16, every = 20;
    int64_t steps = 2400, first = 0;
    bool qk_norm = false;
  };

  Scenario() : Scenario(Shape()) {}
  explicit Scenario(Shape shape);

  // Replaces a scalar, a signal of one head, or of all heads.
  Scenario& Scalar(uint16_t signal, Curve curve);
  Scenario& Head(uint16_t signal, uint32_t layer, uint32_t head, Curve curve);
  Scenario& AllHeads(uint16_t signal, Curve curve);
  // Multiplies what a healthy head would have shown.
  Scenario& Scale(uint16_t signal, uint32_t layer, uint32_t head, std::function<double(double t)> factor);
  // Takes a signal out.
  Scenario& Without(uint16_t signal);
  Scenario& Event(int64_t step, detect::StepEvent::Kind kind, int32_t layer = -1, std::string text = "");
  Scenario& Skip(std::function<bool(double t)> skipped);

  std::vector<detect::StepSample> Samples() const;
  std::vector<AlertEvent> Play() const;

 private:
  using Key = std::pair<uint16_t, uint32_t>;  // signal, head over all layers
  void AddScalars(int64_t step, detect::StepSample* sample) const;
  void AddHeads(int64_t step, detect::StepSample* sample) const;
  std::optional<double> Value(uint16_t signal, uint32_t head, int64_t step) const;

  Shape shape_;
  std::map<uint16_t, Curve> scalars_, all_heads_;
  std::map<Key, Curve> heads_;
  std::map<Key, std::function<double(double)>> factors_;
  std::vector<uint16_t> without_;
  std::multimap<int64_t, detect::StepEvent> events_;
  std::function<bool(double)> skipped_;
};

using scenario::Noise;

// The first firing of the rule (at this severity), or nullptr.
const AlertEvent* FirstFiring(const std::vector<AlertEvent>& events, std::string_view rule,
                              std::optional<detect::Severity> severity = std::nullopt);
// Whether an alert of the rule (at this severity) fires after the last event.
bool FiresAtEnd(const std::vector<AlertEvent>& events, std::string_view rule,
                std::optional<detect::Severity> severity = std::nullopt);
// For messages: one line an event.
std::string Dump(const std::vector<AlertEvent>& events);

}  // namespace foreshock::alert
