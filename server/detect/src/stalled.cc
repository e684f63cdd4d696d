// stalled: no frame for much longer than usual, and no end was announced. Time comes from Tick.
#include <algorithm>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "robust.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr double kUsualGaps = 20;
constexpr double kCriticalFactor = 4;  // times the warning's patience

class Stalled final : public Rule {
 public:
  Stalled() : gaps_(64) {}
  std::string_view name() const override { return "stalled"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext&) override {
    const auto seconds = step.FiniteScalar(kStepSeconds);
    const int64_t steps = last_step_ < 0 ? 1 : step.step() - last_step_;
    last_step_ = step.step();
    if (seconds && *seconds > 0) gaps_.Push(*seconds * static_cast<double>(steps));
    return std::vector<Finding>{};  // a frame came
  }

  std::optional<std::vector<Finding>> Tick(double seconds, const RunContext& context) override {
    std::vector<Finding> findings;
    if (context.ended() || context.step() < 0) return findings;
    const double usual = gaps_.size() > 0 ? gaps_.Get().median : 0;
    const double patience = std::max(context.options().stalled_seconds, kUsualGaps * usual);
    if (!(seconds >= patience)) return findings;
    Finding finding;
    finding.severity = seconds >= kCriticalFactor * patience ? Severity::kCritical : Severity::kWarning;
    finding.first_step = context.step();
    finding.value = seconds;
    finding.baseline = usual;
    finding.evidence = {{"seconds since the last frame", seconds, usual}};
    finding.summary = "no frame for " + Short(seconds) + " s after step " + std::to_string(context.step()) +
                      ", and no end was announced";
    findings.push_back(std::move(finding));
    return findings;
  }

 private:
  RobustWindow gaps_;
  int64_t last_step_ = -1;
};

}  // namespace

std::unique_ptr<Rule> MakeStalled() { return std::make_unique<Stalled>(); }

}  // namespace foreshock::detect
