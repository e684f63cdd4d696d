// grad_norm_spike: the gradient norm far above what is usual for this run. Factors only: under loss scaling
// its size says nothing. Outlier batches lift it a few times over, so that only tens of times warn.
#include <algorithm>
#include <cmath>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr size_t kBaseline = 256;
constexpr size_t kLag = 5;
constexpr size_t kMinBaseline = 8;
constexpr double kInfoFactor = 8;
constexpr double kWarningFactor = 30;
constexpr double kLastingFactor = 10;  // the median of 5 frames at this factor warns as well
constexpr double kSpreads = 8;

class GradNormSpike final : public Rule {
 public:
  GradNormSpike() : logs_(kBaseline, kLag) {}
  std::string_view name() const override { return "grad_norm_spike"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    const auto norm = step.FiniteScalar(kGradNorm);
    // A scaled gradient that overflowed was thrown away; 0 has no logarithm and is unmonitored's business.
    if (!norm || *norm <= 0 || step.skipped()) return std::nullopt;
    if (context.samples_since_disturbance() == 0) logs_.Clear();
    const Baseline usual = logs_.Get();
    const double value = std::log(*norm);
    logs_.Push(value);
    if (usual.count < kMinBaseline) return std::nullopt;
    const double needed = usual.median + kSpreads * usual.scale;
    const double factor = std::exp(value - usual.median),
                 lasting = std::exp(logs_.Recent(kLag) - usual.median);
    std::vector<Finding> findings;
    const bool info = factor >= kInfoFactor && value > needed;
    const bool lasts = lasting >= kLastingFactor && logs_.Recent(kLag) > needed;
    if (!info && !lasts) return findings;
    const bool warn = lasts || factor >= kWarningFactor;
    Finding finding = RunFinding(step, warn ? Severity::kWarning : Severity::kInfo);
    finding.value = *norm;
    finding.baseline = std::exp(usual.median);
    finding.evidence = {{"grad_norm", *norm, finding.baseline}, {"median of 5 frames, factor", lasting, 1}};
    finding.summary = "gradient norm " + Short(*norm) + ", usually " + Short(finding.baseline);
    findings.push_back(std::move(finding));
    return findings;
  }

 private:
  RobustWindow logs_;
};

}  // namespace

std::unique_ptr<Rule> MakeGradNormSpike() { return std::make_unique<GradNormSpike>(); }

}  // namespace foreshock::detect
