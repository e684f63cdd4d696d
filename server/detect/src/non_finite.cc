// non_finite: NaN or Inf in the loss, the gradient norm or a head's signals. Nothing early about it.
#include <cmath>
#include <string>

#include "foreshock/base/catalogue.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

class NonFinite final : public Rule {
 public:
  std::string_view name() const override { return "non_finite"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext&) override {
    std::vector<Finding> findings;
    bool looked = step.has_heads();
    for (uint16_t signal : {kLoss, kGradNorm}) {
      const std::optional<double> value = step.Scalar(signal);
      if (!value) continue;
      looked = true;
      // A skipped step is loss scaling at work: its gradients overflowed and were thrown away.
      if (std::isfinite(*value) || step.skipped() || !findings.empty()) continue;
      findings.push_back(Make(step, FindSignal(signal)->name, *value, -1, -1));
    }
    if (!looked) return std::nullopt;
    if (findings.empty()) LookAtHeads(step, &findings);
    return findings;
  }

 private:
  // Heads are measured every so many steps: until the signal is measured again, what it showed still holds.
  void LookAtHeads(const StepView& step, std::vector<Finding>* findings) {
    FromHeads(step, findings);
    if (!findings->empty()) {
      held_ = findings->front();
    } else if (held_ && !step.Heads(held_signal_).any) {
      findings->push_back(*held_);
    } else {
      held_.reset();
    }
  }

  static Finding Make(const StepView& step, std::string_view signal, double value, int32_t layer,
                      int32_t head) {
    Finding finding;
    finding.severity = Severity::kCritical;
    finding.layer = layer;
    finding.head = head;
    finding.first_step = step.step();
    finding.value = value;
    finding.baseline = std::numeric_limits<double>::quiet_NaN();
    finding.evidence.push_back({std::string(signal), value, finding.baseline});
    finding.summary = std::string(signal) + (std::isnan(value) ? " is NaN" : " is infinite");
    return finding;
  }

  void FromHeads(const StepView& step, std::vector<Finding>* findings) {
    size_t count = 0;
    for (const SignalInfo& info : SignalCatalogue()) {
      if (info.id >= StepView::kSignalIds) continue;
      const HeadValues& values = step.Heads(info.id);
      if (!values.any) continue;
      for (size_t head = 0; head < step.all_heads(); ++head) {
        if (!values.present[head] || std::isfinite(values.value[head])) continue;
        if (count++ == 0) {
          held_signal_ = info.id;
          findings->push_back(
              Make(step, info.name, values.value[head], step.LayerOf(head), step.HeadOf(head)));
        }
      }
    }
    if (count > 1) {
      findings->front().summary +=
          ", and " + std::to_string(count - 1) + " more values of this step are not finite";
    }
  }

  std::optional<Finding> held_;
  uint16_t held_signal_ = 0;
};

}  // namespace

std::unique_ptr<Rule> MakeNonFinite() { return std::make_unique<NonFinite>(); }

}  // namespace foreshock::detect
