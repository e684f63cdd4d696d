// guard_active: QK normalization was switched on in this run. For the record: it holds a runaway, costs a
// little loss, and has to be on again after a resume.
#include <string>

#include "finding_util.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

class GuardActive final : public Rule {
 public:
  std::string_view name() const override { return "guard_active"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    bool told = false;
    for (const StepEvent& event : step.events()) {
      const bool on = event.kind == StepEvent::Kind::kGuardOn;
      if (on && since_ < 0) {
        since_ = step.step();
        layer_ = event.layer;
      }
      told = told || on || event.kind == StepEvent::Kind::kGuardOff;
    }
    if (!told) return std::nullopt;
    std::vector<Finding> findings;
    if (!context.guard_at_work()) {
      since_ = -1;
      return findings;
    }
    const auto layers = static_cast<double>(context.guarded_layers());
    Finding finding = RunFinding(step, Severity::kInfo);
    finding.layer = layer_;
    finding.first_step = since_;
    finding.value = layers;
    finding.evidence = {{"layers with QK normalization switched on", layers, 0}};
    finding.summary = "QK normalization is on in " + std::to_string(context.guarded_layers()) + " of " +
                      std::to_string(step.layers()) + " layers, first since step " + std::to_string(since_);
    if (layer_ >= 0) finding.summary += " in layer " + std::to_string(layer_);
    findings.push_back(std::move(finding));
    return findings;
  }

 private:
  int64_t since_ = -1;
  int32_t layer_ = -1;  // that was switched first; -1: the whole model
};

}  // namespace

std::unique_ptr<Rule> MakeGuardActive() { return std::make_unique<GuardActive>(); }

}  // namespace foreshock::detect
