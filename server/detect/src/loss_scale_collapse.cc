// loss_scale_collapse: dynamic loss scaling halves and halves: gradients overflow again and again. The
// gradient norm of the steps that are left may look calm meanwhile.
#include <algorithm>
#include <cmath>
#include <deque>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr size_t kFrames = 500;
// At the start the scale finds its place from a large default: that counts only when it leaves no room at
// all.
constexpr int64_t kSettleFrames = 50;
constexpr double kWarningHalvings = 4;
constexpr double kCriticalHalvings = 8;

class LossScaleCollapse final : public Rule {
 public:
  std::string_view name() const override { return "loss_scale_collapse"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext&) override {
    const auto scale = step.FiniteScalar(kLossScale);
    if (!scale || *scale <= 0) return std::nullopt;
    if (++frames_ == kSettleFrames && *scale >= 1) scales_.clear();
    scales_.push_back({step.step(), *scale});
    if (scales_.size() > kFrames) scales_.pop_front();
    const auto top = std::max_element(scales_.begin(), scales_.end(),
                                      [](const Scale& a, const Scale& b) { return a.value < b.value; });
    const double halvings = std::log2(top->value / *scale);
    std::vector<Finding> findings;
    if (halvings < kWarningHalvings || (frames_ < kSettleFrames && *scale >= 1)) return findings;
    const bool critical = halvings >= kCriticalHalvings || *scale < 1e-3;
    Finding finding = RunFinding(step, critical ? Severity::kCritical : Severity::kWarning);
    finding.first_step = top->step;
    finding.value = *scale;
    finding.baseline = top->value;
    finding.evidence = {{"loss_scale", *scale, top->value}, {"halvings", halvings, 0}};
    finding.summary = "the loss scale fell from " + Short(top->value) + " to " + Short(*scale) + ": " +
                      Short(halvings) + " halvings since step " + std::to_string(top->step);
    findings.push_back(std::move(finding));
    return findings;
  }

 private:
  struct Scale {
    int64_t step;
    double value;
  };
  std::deque<Scale> scales_;
  int64_t frames_ = 0;
};

}  // namespace

std::unique_ptr<Rule> MakeLossScaleCollapse() { return std::make_unique<LossScaleCollapse>(); }

}  // namespace foreshock::detect
