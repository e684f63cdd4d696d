// tied_rows_rising: more rows attain their maximum twice, which is what lets rounding in bf16 take one side
// (arXiv 2510.04212). Ties of tiny logits, early in training, mean nothing.
#include <cmath>

#include "foreshock/base/catalogue.h"
#include "head_rule.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr double kRise = 0.1;  // of all rows
constexpr double kFactor = 3;
constexpr double kHeldFactor = 2;
constexpr double kSpreads = 8;

class TiedRowsRising final : public HeadRule {
 public:
  explicit TiedRowsRising(size_t heads)
      : HeadRule(heads, {kUnitPRowFraction, kTiedRowFractionBf16, kTiedRowFraction}) {}
  std::string_view name() const override { return "tied_rows_rising"; }

 protected:
  bool Shifted(const StepView& step, const RunContext& context, size_t head, double level,
               const Baseline& usual, bool held) const override {
    if (context.logits_bounded(head / step.heads()) || context.recent_logit(head) < context.logit_bound()) {
      return false;
    }
    const double rise = level - usual.median;
    if (held) return rise > kRise / 2 && level > kHeldFactor * usual.median;
    return rise > kRise && level > kFactor * usual.median && rise > kSpreads * usual.scale;
  }
  std::string Describe(double level, double usual) const override {
    return "has tied maxima in " + Percent(level) + " of its rows, usually " + Percent(usual);
  }
};

}  // namespace

std::unique_ptr<Rule> MakeTiedRowsRising(const RunInfo& info) {
  return std::make_unique<TiedRowsRising>(size_t{info.layers} * info.heads);
}

}  // namespace foreshock::detect
