// entropy_collapse: a head that used to look at many keys looks at hardly one (arXiv 2303.06296).
#include "foreshock/base/catalogue.h"
#include "head_rule.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr double kMinUsualNats = 0.5;  // below, the head was peaked all along
constexpr double kShare = 0.25;        // of its usual entropy
constexpr double kHeldShare = 0.4;
constexpr double kSpreads = 6;

class EntropyCollapse final : public HeadRule {
 public:
  explicit EntropyCollapse(size_t heads) : HeadRule(heads, {kEntropyMean}) {}
  std::string_view name() const override { return "entropy_collapse"; }

 protected:
  bool Shifted(const StepView&, const RunContext&, size_t, double level, const Baseline& usual,
               bool held) const override {
    if (held) return level < kHeldShare * usual.median;
    return usual.median >= kMinUsualNats && level < kShare * usual.median &&
           usual.median - level > kSpreads * usual.scale;
  }
  std::string Describe(double level, double usual) const override {
    return "lost its attention entropy: " + Short(level) + " nats, usually " + Short(usual);
  }
};

}  // namespace

std::unique_ptr<Rule> MakeEntropyCollapse(const RunInfo& info) {
  return std::make_unique<EntropyCollapse>(size_t{info.layers} * info.heads);
}

}  // namespace foreshock::detect
