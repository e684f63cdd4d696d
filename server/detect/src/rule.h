// A built-in rule: keeps its own baselines, judges one step at a time.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "foreshock/server/detect/detector.h"
#include "foreshock/server/detect/finding.h"
#include "run_context.h"
#include "step_view.h"

namespace foreshock::detect {

class Rule {
 public:
  virtual ~Rule() = default;
  // The rule's name, as in BuiltInRules().
  virtual std::string_view name() const = 0;
  // No value: the step held nothing for this rule to look at. An empty vector: looked, nothing is wrong.
  virtual std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) = 0;
  // After Judge: leaves in the context what rules judged later, or at the next step, may want to know.
  virtual void Inform(RunContext* /*context*/) const {}
  // As Detector::Tick; most rules have nothing to say.
  virtual std::optional<std::vector<Finding>> Tick(double /*seconds*/, const RunContext& /*context*/) {
    return std::nullopt;
  }
};

}  // namespace foreshock::detect
