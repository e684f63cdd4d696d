// Runs one user rule beside the built-in ones.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "foreshock/server/detect/rule_info.h"
#include "foreshock/server/detect/user_rule.h"
#include "rule.h"
#include "unit_window.h"

namespace foreshock::detect {

class UserRuleJudge final : public Rule {
 public:
  UserRuleJudge(const RunInfo& info, UserRule rule);

  std::string_view name() const override { return rule_.name; }
  const UserRule& rule() const { return rule_; }
  // What the alert states need; points into this object.
  const RuleInfo& info() const { return rule_info_; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override;

 private:
  // A head, a layer or the run: what the comparison is made for.
  struct Unit {
    int32_t layer = -1, head = -1;
    UnitWindow window;
    int64_t since = -1;      // step at which the comparison began to hold, -1: it does not
    int64_t samples = 0;     // for so many samples in a row
    UnitWindow::Result now;  // of the newest sample
  };

  bool SaysSomething(const StepView& step) const;
  void StartAgain(const RunContext& context);
  // The value of every unit at this step, NaN where there is none; false when nothing came.
  bool Gather(const StepView& step);
  void GatherHeads(const HeadValues& heads, const StepView& step);
  std::optional<std::vector<Finding>> JudgeAbsence(const StepView& step, bool came);
  void JudgeUnit(int64_t step, double value, Unit* unit);
  bool Ripe(int64_t step, const Unit& unit) const;
  std::optional<double> ReduceLayer(const HeadValues& heads, size_t layer, size_t heads_per_layer);
  std::vector<Finding> Findings(const StepView& step) const;
  Finding FindingOf(const StepView& step, const Unit& unit) const;
  std::string Summary(const StepView& step, const Unit& unit) const;

  const UserRule rule_;
  RuleInfo rule_info_;
  bool scalar_;
  std::vector<size_t> selected_layers_, selected_heads_;
  std::vector<Unit> units_;
  std::vector<double> values_;  // one a unit, of this step
  std::vector<double> scratch_, pool_;
  double median_head_ = 0;
  int64_t seen_step_ = -1, seen_samples_ago_ = 0;  // of kAbsent
};

}  // namespace foreshock::detect
