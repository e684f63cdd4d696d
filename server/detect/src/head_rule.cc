#include "head_rule.h"

#include "foreshock/base/catalogue.h"

namespace foreshock::detect {

std::optional<std::vector<Finding>> HeadRule::Judge(const StepView& step, const RunContext& context) {
  for (size_t i = 0; i < signals_.size() && chosen_ == SIZE_MAX; ++i) {
    if (step.Heads(signals_[i]).any) chosen_ = i;
  }
  if (chosen_ == SIZE_MAX || !step.Heads(signals_[chosen_]).any) return std::nullopt;
  shift_.Push(step, step.Heads(signals_[chosen_]), context);

  size_t shifted = 0, first = 0;
  for (size_t head = 0; head < step.all_heads(); ++head) {
    const bool held = shift_.shifted(head);
    const bool now =
        shift_.Known(head) && Shifted(step, context, head, shift_.Level(head), shift_.Get(head), held);
    shift_.Mark(head, now, step.step());
    if (!now) continue;
    if (shifted++ == 0 || shift_.since(head) < shift_.since(first)) first = head;
  }
  std::vector<Finding> findings;
  if (shifted == 0) return findings;
  Finding finding = HeadFinding(step, first, Severity::kWarning);
  finding.first_step = shift_.since(first);
  finding.value = shift_.Level(first);
  finding.baseline = shift_.Get(first).median;
  finding.evidence = {{std::string(FindSignal(signals_[chosen_])->name), finding.value, finding.baseline},
                      {"usual spread", shift_.Get(first).scale, 0},
                      {"heads", static_cast<double>(shifted), 0}};
  finding.summary = Place(step, first) + " " + Describe(finding.value, finding.baseline);
  if (shifted > 1) finding.summary += "; " + std::to_string(shifted) + " heads in all";
  findings.push_back(std::move(finding));
  return findings;
}

}  // namespace foreshock::detect
