// update_sign_coherence: the updates of a head's W_Q go one way, along its own leading singular direction.
//
// The share of an update's norm that lies along pair 1, signed and averaged over samples: errors that
// alternate cancel in it, errors that keep their sign (arXiv 2606.28116) add up to 1. Healthy runs stay below
// a third. Where the norm of the update is not measured, the drift ratio over many single steps stands in for
// it, together with what it did to the weight; that says less, so it only warns.
#include <algorithm>
#include <cmath>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "moving_means.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr double kWarningShare = 0.38;
constexpr double kCriticalShare =
    0.5;                       // more than half of each update pushes the one direction that makes logits
constexpr double kHeld = 0.5;  // a firing alert asks for this part of the threshold only
constexpr double kDrift = 0.9;
constexpr double kDriftSteps = 100;  // single steps behind a drift ratio, at least
// What the drift did to sigma1 must be a runaway's growth: an exponent in the run's age beyond this.
constexpr double kDriftExponent = 2;
constexpr double kMinGrowth = 0.1;  // of sigma1

class UpdateSignCoherence final : public Rule {
 public:
  explicit UpdateSignCoherence(size_t heads)
      : share_(heads), net_(heads), total_(heads), steps_(heads), since_(heads, -1), critical_(heads) {}
  std::string_view name() const override { return "update_sign_coherence"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    const HeadValues& projection = step.Heads(kUpdateProjection1);
    if (!projection.any) return std::nullopt;
    const bool has_norm = step.Heads(kUpdateNorm).any;
    PushShares(step, &share_);
    size_t worst = 0, heads = 0;
    for (size_t head = 0; head < step.all_heads(); ++head) {
      if (!projection.Finite(head)) continue;
      PushDrift(step, head);
      const bool warned = Coherent(step, context, head, has_norm);
      since_[head] = !warned ? -1 : since_[head] < 0 ? step.step() : since_[head];
      if (!warned) continue;
      if (heads++ == 0 || since_[head] < since_[worst]) worst = head;
    }
    std::vector<Finding> findings;
    if (heads > 0) findings.push_back(Make(step, worst, heads, has_norm));
    return findings;
  }

 private:
  void PushDrift(const StepView& step, size_t head) {
    const double n = StepsBehind(step.Heads(kUpdateProjection1), head);
    const HeadValues& drift = step.Heads(kUpdateDriftRatio1);
    if (drift.any && drift.Finite(head) && std::isfinite(drift.weight[head])) {
      net_.Push(head, drift.value[head] * drift.weight[head]);
      total_.Push(head, drift.weight[head]);
      steps_.Push(head, n);
    }
  }

  double Drift(size_t head) const {
    const double total = total_.Sum(head);
    return total > 0 ? net_.Sum(head) / total : 0;
  }

  bool Coherent(const StepView& step, const RunContext& context, size_t head, bool has_norm) {
    // Bounded logits cannot run away, whatever the weights do; small ones of a young run look the same.
    if (context.logits_bounded(head / step.heads())) return critical_[head] = false;
    const double part = since_[head] >= 0 ? kHeld : 1;
    if (has_norm) {
      const double share = share_.Full(head) ? share_.Mean(head) : 0;
      critical_[head] = share >= kCriticalShare * (critical_[head] ? kHeld : 1);
      return critical_[head] || share >= part * kWarningShare;
    }
    critical_[head] = false;
    const double sigma = step.Heads(kWqSigma1).any ? step.Heads(kWqSigma1).ValueOrNan(head) : std::nan("");
    return steps_.Sum(head) >= kDriftSteps && Drift(head) >= kDrift &&
           RunsAway(step.step(), head, sigma, part);
  }

  bool RunsAway(int64_t step, size_t head, double sigma, double part) const {
    const double net = net_.Sum(head), steps = steps_.Sum(head);
    if (!(net >= part * kMinGrowth * sigma) || !(sigma > net)) return false;
    const double now = static_cast<double>(step);
    const double log_age = std::log(now / std::max(now - steps, 20.0));
    return std::log(sigma / (sigma - net)) >= part * kDriftExponent * log_age;
  }

  Finding Make(const StepView& step, size_t worst, size_t heads, bool has_norm) const {
    bool critical = false;
    for (const bool c : critical_) critical = critical || c;
    if (critical && !critical_[worst]) {
      worst = static_cast<size_t>(std::find(critical_.begin(), critical_.end(), true) - critical_.begin());
    }
    Finding finding = HeadFinding(step, worst, critical ? Severity::kCritical : Severity::kWarning);
    finding.first_step = since_[worst];
    finding.value = has_norm ? share_.Mean(worst) : Drift(worst);
    finding.baseline = 0;
    finding.evidence = {
        {has_norm ? "share of the update along pair 1" : "drift ratio along pair 1", finding.value, 0},
        {"heads", static_cast<double>(heads), 0}};
    finding.summary = "updates of " + Place(step, worst) +
                      " keep one sign along its leading direction: " + Percent(finding.value) +
                      (has_norm ? " of their norm" : " of their length is net growth");
    if (heads > 1) finding.summary += "; " + std::to_string(heads) + " heads in all";
    return finding;
  }

  MovingMeans share_, net_, total_, steps_;
  std::vector<int64_t> since_;
  std::vector<bool> critical_;
};

}  // namespace

std::unique_ptr<Rule> MakeUpdateSignCoherence(const RunInfo& info) {
  return std::make_unique<UpdateSignCoherence>(size_t{info.layers} * info.heads);
}

}  // namespace foreshock::detect
