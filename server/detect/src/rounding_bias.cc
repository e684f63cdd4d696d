// rounding_bias: the attention output is rounded to one side (arXiv 2510.04212), or its error is far larger
// than rounding can make it. Sees the cause, long before any effect.
//
// Critical is a bias, which keeps its sign. Errors of random sign are a warning whatever their size, unless a
// head has begun to run away besides: at 8 ulp they did nothing in recorded runs, at 16 they ended in a
// collapse.
#include <cmath>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "rules.h"
#include "signed_bias.h"

namespace foreshock::detect {
namespace {

// In bf16 ulp. Rounding once to nearest is unbiased and at most 0.5 off; truncation is 0.5 off in the mean. A
// mean beyond 1 cannot come from storing the output once.
constexpr double kInfoUlp = 0.05;
constexpr double kWarningUlp = 0.25;
constexpr double kCriticalUlp = 1.0;
// Rounding leaves 0.29 ulp rms. The probe's value scatters in proportion to the error's size: four times the
// usual scatter in the middle head of all means errors beyond 1 ulp, whatever their sign. One head alone may
// scatter more because of what it attends to.
constexpr double kAllScatter = 4;
constexpr double kHeadScatter = 8;
constexpr double kHeld = 0.6;
// A head that saturates averages over fewer different outputs: its scatter then grows without any error
// growing.
constexpr double kSaturated = 0.3;

class RoundingBias final : public Rule {
 public:
  explicit RoundingBias(size_t heads) : bias_(heads), saturated_(heads, 0, 3) {}
  std::string_view name() const override { return "rounding_bias"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    if (step.Heads(kSaturatedRowFraction).any) saturated_.PushAll(step.Heads(kSaturatedRowFraction));
    if (!step.Heads(kOutputRoundingBias).any) return std::nullopt;
    if (context.new_phase()) bias_.Restart();
    bias_.Push(step.Heads(kOutputRoundingBias));
    std::vector<Finding> findings;
    Worst worst;
    scatters_everywhere_ = bias_.middle_scatter() >= (scatters_everywhere_ ? kHeld : 1) * kAllScatter;
    for (size_t head = 0; head < step.all_heads(); ++head) Look(step, context, head, &worst);
    if (worst.heads > 0) findings.push_back(Make(step, worst));
    return findings;
  }

 private:
  struct Worst {
    size_t head = 0, heads = 0;
    Severity severity = Severity::kInfo;
    bool by_scatter = false;
    double rank = 0;
  };

  void Look(const StepView& step, const RunContext& context, size_t head, Worst* worst) {
    const SignedBias::State& state = bias_.state(head);
    const double size = state.significance >= SignedBias::kSignificance ? std::abs(state.level) : 0;
    const bool saturated = saturated_.Level(head) > kSaturated;
    const bool everywhere = scatters_everywhere_ && state.scatter >= kHeld * kAllScatter;
    const bool scatters = !saturated && (everywhere || state.scatter >= kHeadScatter);
    bias_.Mark(head, size >= kWarningUlp || scatters, step.step());
    if (size < kInfoUlp && !scatters) return;
    Severity severity = size >= kWarningUlp || scatters ? Severity::kWarning : Severity::kInfo;
    const bool biased = size >= kCriticalUlp && state.steady;
    const bool hurts = scatters && everywhere && context.any_stirs();
    // With QK normalization on, or a guard that would switch it on, the error has no way into the logits.
    if ((biased || hurts) && !context.contained(head / step.heads())) severity = Severity::kCritical;
    ++worst->heads;
    const double rank = biased ? size : scatters ? 0.5 : 0;
    const bool more = worst->heads == 1 || severity > worst->severity ||
                      (severity == worst->severity && rank > 1.5 * worst->rank);
    if (!more) return;
    worst->head = head;
    worst->severity = severity;
    worst->by_scatter = scatters && !biased;
    worst->rank = rank;
  }

  Finding Make(const StepView& step, const Worst& worst) const {
    const SignedBias::State& state = bias_.state(worst.head);
    Finding finding = HeadFinding(step, worst.head, worst.severity);
    if (state.since >= 0) finding.first_step = state.since;
    finding.value = worst.by_scatter ? state.scatter : state.level;
    finding.baseline = worst.by_scatter ? 1 : 0;
    finding.evidence = {{"output_rounding_bias", state.level, 0},
                        {"its standard errors", state.significance, 0},
                        {"scatter against usual", state.scatter, 1},
                        {"heads", static_cast<double>(worst.heads), 0}};
    if (worst.by_scatter) {
      finding.summary =
          "the attention output of " + Place(step, worst.head) + " scatters " + Short(state.scatter) +
          " times as much as usual around its reference: errors larger than rounding, of random sign";
    } else {
      finding.summary = "the attention output of " + Place(step, worst.head) + " is rounded to one side by " +
                        Short(state.level) + " bf16 ulp in the mean";
    }
    if (worst.heads > 1) finding.summary += "; " + std::to_string(worst.heads) + " heads in all";
    return finding;
  }

  SignedBias bias_;
  HeadWindows saturated_;
  bool scatters_everywhere_ = false;
};

}  // namespace

std::unique_ptr<Rule> MakeRoundingBias(const RunInfo& info) {
  return std::make_unique<RoundingBias>(size_t{info.layers} * info.heads);
}

}  // namespace foreshock::detect
