// What the rules over one per-head signal share: they look at every head, and name the one that shifted
// first.
#pragma once

#include <string>
#include <vector>

#include "finding_util.h"
#include "head_shift.h"
#include "rule.h"

namespace foreshock::detect {

class HeadRule : public Rule {
 public:
  HeadRule(size_t heads, std::vector<uint16_t> signals) : signals_(std::move(signals)), shift_(heads) {}

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) final;

 protected:
  // What is special: whether a level of a head is a shift from its baseline. Called with a known baseline.
  // `held` is true when the head is shifted already: ask for less then (hysteresis).
  virtual bool Shifted(const StepView& step, const RunContext& context, size_t head, double level,
                       const Baseline& baseline, bool held) const = 0;
  // "saturates: 71 % of its rows ..." after "layer 2 head 5 ".
  virtual std::string Describe(double level, double baseline) const = 0;

 private:
  std::vector<uint16_t> signals_;  // by preference: the first that ever came is used
  size_t chosen_ = SIZE_MAX;
  HeadShift shift_;
};

}  // namespace foreshock::detect
