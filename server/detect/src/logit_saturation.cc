// logit_saturation: more and more rows of a head put all their weight on one key, because its logits grew.
#include <cmath>

#include "foreshock/base/catalogue.h"
#include "head_rule.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr double kRise = 0.4;  // of all rows, above the head's usual share
constexpr double kHeldRise = 0.2;
constexpr double kSpreads = 8;

class LogitSaturation final : public HeadRule {
 public:
  explicit LogitSaturation(size_t heads) : HeadRule(heads, {kSaturatedRowFraction}) {}
  std::string_view name() const override { return "logit_saturation"; }

 protected:
  bool Shifted(const StepView& step, const RunContext& context, size_t head, double level,
               const Baseline& usual, bool held) const override {
    // Bounded logits can saturate short rows at most.
    if (context.logits_bounded(head / step.heads())) return false;
    const double rise = level - usual.median;
    if (held) return rise > kHeldRise;
    return rise > kRise && rise > kSpreads * usual.scale;
  }
  std::string Describe(double level, double usual) const override {
    return "saturates: " + Percent(level) + " of its rows put 99 % of their weight on one key, usually " +
           Percent(usual);
  }
};

}  // namespace

std::unique_ptr<Rule> MakeLogitSaturation(const RunInfo& info) {
  return std::make_unique<LogitSaturation>(size_t{info.layers} * info.heads);
}

}  // namespace foreshock::detect
