#include "foreshock/server/detect/detector.h"

#include <algorithm>

#include "rules.h"
#include "run_context.h"
#include "step_view.h"
#include "user_rule_judge.h"

namespace foreshock::detect {

class Detector::Impl {
 public:
  Impl(const RunInfo& info, const DetectorOptions& options) : view_(info), context_(info, options) {
    Add(MakeNonFinite());
    Add(MakeGuardMissing());
    Add(MakeGuardActive());
    Add(MakeTwoWriters());
    Add(MakeRoundingBias(info));
    Add(MakeDeltaError(info));
    Add(MakeQkRunaway(info, options.qk_runaway));
    Add(MakeUpdateSignCoherence(info));
    Add(MakeLogitSaturation(info));
    Add(MakeTiedRowsRising(info));
    Add(MakeEntropyCollapse(info));
    Add(MakeLossDivergence());
    Add(MakeDeadPlateau(info));
    Add(MakeLossSpike());
    Add(MakeGradNormSpike());
    Add(MakeLossScaleCollapse());
    Add(MakeStalled());
    Add(MakeUnmonitored());
    SetUserRules(options.user_rules);
  }

  void SetUserRules(const UserRulesPtr& rules) {
    std::vector<std::unique_ptr<UserRuleJudge>> next;
    if (rules) {
      for (const UserRule& rule : *rules) next.push_back(Same(rule));
    }
    user_rules_ = std::move(next);
  }

  const RuleInfo* FindRule(std::string_view name) const {
    for (const auto& rule : user_rules_) {
      if (rule->name() == name) return &rule->info();
    }
    return detect::FindRule(name);
  }

  std::vector<Verdict> Observe(const StepSample& sample) {
    std::vector<Verdict> verdicts;
    if (sample.step <= context_.step()) return verdicts;
    view_.Load(sample);
    context_.Advance(view_);
    for (const auto& rule : rules_) Ask(rule.get(), &verdicts);
    for (const auto& rule : user_rules_) Ask(rule.get(), &verdicts);
    return verdicts;
  }

  std::vector<Verdict> Tick(double seconds) {
    std::vector<Verdict> verdicts;
    for (const auto& rule : rules_) {
      if (auto findings = rule->Tick(seconds, context_)) {
        verdicts.push_back({rule->name(), context_.step(), *std::move(findings)});
      }
    }
    return verdicts;
  }

  int64_t last_step() const { return context_.step(); }

 private:
  void Ask(Rule* rule, std::vector<Verdict>* verdicts) {
    if (auto findings = rule->Judge(view_, context_)) {
      verdicts->push_back({rule->name(), view_.step(), *std::move(findings)});
      rule->Inform(&context_);
    }
  }

  // The judge of an equal rule, taken out of those that run, or a new one.
  std::unique_ptr<UserRuleJudge> Same(const UserRule& rule) {
    for (auto& old : user_rules_) {
      if (old && old->rule() == rule) return std::move(old);
    }
    return std::make_unique<UserRuleJudge>(context_.info(), rule);
  }

  void Add(std::unique_ptr<Rule> rule) {
    const auto& off = context_.options().disabled_rules;
    if (std::find(off.begin(), off.end(), rule->name()) == off.end()) rules_.push_back(std::move(rule));
  }

  StepView view_;
  RunContext context_;
  std::vector<std::unique_ptr<Rule>> rules_;
  std::vector<std::unique_ptr<UserRuleJudge>> user_rules_;
};

Detector::Detector(const RunInfo& info, DetectorOptions options)
    : impl_(std::make_unique<Impl>(info, options)) {}
Detector::~Detector() = default;
Detector::Detector(Detector&&) noexcept = default;
Detector& Detector::operator=(Detector&&) noexcept = default;

std::vector<Verdict> Detector::Observe(const StepSample& sample) { return impl_->Observe(sample); }
std::vector<Verdict> Detector::Tick(double seconds) { return impl_->Tick(seconds); }
void Detector::SetUserRules(const UserRulesPtr& rules) { impl_->SetUserRules(rules); }
const RuleInfo* Detector::FindRule(std::string_view name) const { return impl_->FindRule(name); }
int64_t Detector::last_step() const { return impl_->last_step(); }

}  // namespace foreshock::detect
