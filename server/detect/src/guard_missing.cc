// guard_missing: training resumed without the guard's state although the guard was on. What it held down is
// free.
#include "finding_util.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

class GuardMissing final : public Rule {
 public:
  std::string_view name() const override { return "guard_missing"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext&) override {
    bool told = false;
    for (const StepEvent& event : step.events()) {
      if (event.kind == StepEvent::Kind::kGuardMissing && since_ < 0) since_ = step.step();
      if (event.kind == StepEvent::Kind::kGuardOn) since_ = -1;
      told = told || event.kind == StepEvent::Kind::kGuardMissing || event.kind == StepEvent::Kind::kGuardOn;
    }
    if (since_ < 0 && !told) return std::nullopt;
    std::vector<Finding> findings;
    if (since_ < 0) return findings;
    Finding finding = RunFinding(step, Severity::kCritical);
    finding.first_step = since_;
    finding.summary = "resumed without the guard's state although the guard was on";
    findings.push_back(std::move(finding));
    return findings;
  }

 private:
  int64_t since_ = -1;
};

}  // namespace

std::unique_ptr<Rule> MakeGuardMissing() { return std::make_unique<GuardMissing>(); }

}  // namespace foreshock::detect
