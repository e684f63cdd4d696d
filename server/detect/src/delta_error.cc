// delta_error: delta = rowsum(dO O) of the softmax backward is off to one side, so that the rows of dS do not
// sum to zero (arXiv 2609.34272). Small and steady is what collapses; large and random is not.
#include <cmath>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "rules.h"
#include "signed_bias.h"

namespace foreshock::detect {
namespace {

// Relative to the mean |delta|. An fp32 delta is good to 1e-6. Runs of the corpus lived with 2e-4 and
// collapsed from 5e-4 on.
constexpr double kWarning = 1e-4;
constexpr double kCritical = 4e-4;
constexpr double kSignificance = 6;

class DeltaError final : public Rule {
 public:
  explicit DeltaError(size_t heads) : bias_(heads) {}
  std::string_view name() const override { return "delta_error"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    if (!step.Heads(kDeltaError).any) return std::nullopt;
    bias_.Push(step.Heads(kDeltaError));
    std::vector<Finding> findings;
    size_t worst = 0, heads = 0;
    double most = 0;
    for (size_t head = 0; head < step.all_heads(); ++head) {
      const SignedBias::State& state = bias_.state(head);
      const double size = state.significance >= kSignificance ? std::abs(state.level) : 0;
      bias_.Mark(head, size >= kWarning, step.step());
      if (size < kWarning) continue;
      ++heads;
      if (size <= 1.5 * most) continue;
      most = size;
      worst = head;
    }
    if (heads > 0) findings.push_back(Make(step, context, worst, heads));
    return findings;
  }

 private:
  Finding Make(const StepView& step, const RunContext& context, size_t head, size_t heads) const {
    const SignedBias::State& state = bias_.state(head);
    // With QK normalization on, the error has no way into the logits.
    const bool harmless = context.logits_bounded(head / step.heads());
    const bool critical = std::abs(state.level) >= kCritical && !harmless;
    Finding finding = HeadFinding(step, head, critical ? Severity::kCritical : Severity::kWarning);
    if (state.since >= 0) finding.first_step = state.since;
    finding.value = state.level;
    finding.baseline = 0;
    finding.evidence = {
        {"delta_error", state.level, 0},
        {"its standard errors", state.significance, 0},
        {"delta_error_sign_mean",
         step.Heads(kDeltaErrorSignMean).any ? step.Heads(kDeltaErrorSignMean).ValueOrNan(head)
                                             : std::nan(""),
         0},
        {"heads", static_cast<double>(heads), 0}};
    finding.summary = "delta of " + Place(step, head) + " is off by " + Percent(state.level) +
                      " of its mean size, to one side: rows of dS do not sum to zero";
    if (heads > 1) finding.summary += "; " + std::to_string(heads) + " heads in all";
    return finding;
  }

  SignedBias bias_;
};

}  // namespace

std::unique_ptr<Rule> MakeDeltaError(const RunInfo& info) {
  return std::make_unique<DeltaError>(size_t{info.layers} * info.heads);
}

}  // namespace foreshock::detect
