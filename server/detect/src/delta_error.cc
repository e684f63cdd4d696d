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

class DeltaError final : public Rule {
 public:
  explicit DeltaError(size_t heads) : bias_(heads) {}
  std::string_view name() const override { return "delta_error"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    if (!step.Heads(kDeltaError).any) return std::nullopt;
    if (context.new_phase()) bias_.Restart();
    bias_.Push(step.Heads(kDeltaError));
    std::vector<Finding> findings;
    Worst worst;
    for (size_t head = 0; head < step.all_heads(); ++head) Look(step, context, head, &worst);
    if (worst.heads > 0) findings.push_back(Make(step, worst));
    return findings;
  }

 private:
  struct Worst {
    size_t head = 0, heads = 0;
    bool critical = false;
    double size = 0;
  };

  void Look(const StepView& step, const RunContext& context, size_t head, Worst* worst) {
    const SignedBias::State& state = bias_.state(head);
    const double size = state.significance >= SignedBias::kSignificance ? std::abs(state.level) : 0;
    bias_.Mark(head, size >= kWarning, step.step());
    if (size < kWarning) return;
    // With QK normalization on, or a guard that would switch it on, the error has no way into the logits.
    const bool critical = size >= kCritical && state.steady && !context.contained(head / step.heads());
    ++worst->heads;
    const bool more = critical != worst->critical ? critical : size > 1.5 * worst->size;
    if (!more) return;
    worst->head = head;
    worst->critical = critical;
    worst->size = size;
  }

  Finding Make(const StepView& step, const Worst& worst) const {
    const SignedBias::State& state = bias_.state(worst.head);
    Finding finding =
        HeadFinding(step, worst.head, worst.critical ? Severity::kCritical : Severity::kWarning);
    if (state.since >= 0) finding.first_step = state.since;
    finding.value = state.level;
    finding.baseline = 0;
    const HeadValues& signs = step.Heads(kDeltaErrorSignMean);
    finding.evidence = {{"delta_error", state.level, 0},
                        {"its standard errors", state.significance, 0},
                        {"delta_error_sign_mean", signs.any ? signs.ValueOrNan(worst.head) : std::nan(""), 0},
                        {"heads", static_cast<double>(worst.heads), 0}};
    finding.summary = "delta of " + Place(step, worst.head) + " is off by " + Percent(state.level) +
                      " of its mean size, to one side: rows of dS do not sum to zero";
    if (worst.heads > 1) finding.summary += "; " + std::to_string(worst.heads) + " heads in all";
    return finding;
  }

  SignedBias bias_;
};

}  // namespace

std::unique_ptr<Rule> MakeDeltaError(const RunInfo& info) {
  return std::make_unique<DeltaError>(size_t{info.layers} * info.heads);
}

}  // namespace foreshock::detect
