// two_writers: two live processes send as the same rank of one attempt. Steps of both are kept, and the
// newest counts: what the other rules see is a mixture.
#include <string>

#include "finding_util.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

class TwoWriters final : public Rule {
 public:
  std::string_view name() const override { return "two_writers"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext&) override {
    bool told = false;
    for (const StepEvent& event : step.events()) {
      if (event.kind != StepEvent::Kind::kTwoWriters && event.kind != StepEvent::Kind::kOneWriter) continue;
      told = true;
      const bool two = event.kind == StepEvent::Kind::kTwoWriters;
      if (two && since_ < 0) since_ = step.step();
      if (!two) since_ = -1;
      text_ = event.text;
    }
    if (since_ < 0 && !told) return std::nullopt;
    std::vector<Finding> findings;
    if (since_ < 0) return findings;
    Finding finding = RunFinding(step, Severity::kWarning);
    finding.first_step = since_;
    finding.summary = text_;
    findings.push_back(std::move(finding));
    return findings;
  }

 private:
  int64_t since_ = -1;
  std::string text_;
};

}  // namespace

std::unique_ptr<Rule> MakeTwoWriters() { return std::make_unique<TwoWriters>(); }

}  // namespace foreshock::detect
