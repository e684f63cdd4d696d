// unmonitored: what the other rules need is not there. No data is not health.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr int64_t kFirstAttentionSteps = 100;  // or three sampling intervals
constexpr int kMissingFrames = 3;
constexpr int kConstantFrames = 20;
constexpr double kQuietGaps = 10;  // usual gaps between frames with attention signals
constexpr size_t kMaxParts = 8;    // named one by one

class UnmonitoredRule final : public Rule {
 public:
  std::string_view name() const override { return "unmonitored"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    if (first_step_ < 0) first_step_ = step.step();
    for (const StepEvent& event : step.events()) {
      if (event.kind == StepEvent::Kind::kUnmonitored && parts_.size() < kMaxParts)
        parts_.push_back(event.text);
    }
    std::vector<std::string> problems;
    Attention(step, context, &problems);
    Losses(step, &problems);
    Constant(step, &problems);
    std::vector<Finding> findings;
    if (problems.empty() && parts_.empty()) return findings;
    Finding finding = RunFinding(step, problems.empty() ? Severity::kInfo : Severity::kWarning);
    finding.value = static_cast<double>(problems.size() + parts_.size());
    for (const std::string& part : parts_) problems.push_back(part);
    for (const std::string& problem : problems) {
      finding.evidence.push_back({problem, 0, 0});
      finding.summary += (finding.summary.empty() ? "" : "; ") + problem;
    }
    findings.push_back(std::move(finding));
    return findings;
  }

 private:
  void Attention(const StepView& step, const RunContext& context, std::vector<std::string>* problems) {
    const bool came = step.Heads(kLogitMax).any || step.Heads(kWqSigma1).any || step.Heads(kEntropyMean).any;
    if (came) {
      if (last_attention_ >= 0) gap_ = std::max<int64_t>(gap_, step.step() - last_attention_);
      last_attention_ = step.step();
      return;
    }
    if (last_attention_ < 0) {
      const int64_t patience = std::max<int64_t>(kFirstAttentionSteps, 3 * context.info().sample_every_steps);
      if (step.step() - first_step_ >= patience)
        problems->push_back("no attention or weight signal ever came");
      return;
    }
    const auto patience = static_cast<int64_t>(kQuietGaps * static_cast<double>(std::max<int64_t>(gap_, 1)));
    if (step.step() - last_attention_ > std::max(patience, kFirstAttentionSteps)) {
      problems->push_back("no attention or weight signal since step " + std::to_string(last_attention_));
    }
  }

  void Losses(const StepView& step, std::vector<std::string>* problems) {
    if (step.Scalar(kLoss)) {
      had_loss_ = true;
      without_loss_ = 0;
    } else if (had_loss_ && ++without_loss_ >= kMissingFrames) {
      problems->push_back("the loss is no longer reported");
    }
  }

  // A gradient norm that never changes is a broken signal, not calm.
  void Constant(const StepView& step, std::vector<std::string>* problems) {
    if (const auto norm = step.FiniteScalar(kGradNorm)) {
      same_ = *norm == last_norm_ ? same_ + 1 : 0;
      last_norm_ = *norm;
    }
    if (same_ >= kConstantFrames) problems->push_back("grad_norm is " + Short(last_norm_) + " at every step");
  }

  int64_t first_step_ = -1, last_attention_ = -1, gap_ = 0;
  bool had_loss_ = false;
  int without_loss_ = 0, same_ = 0;
  double last_norm_ = std::nan("");
  std::vector<std::string> parts_;
};

}  // namespace

std::unique_ptr<Rule> MakeUnmonitored() { return std::make_unique<UnmonitoredRule>(); }

}  // namespace foreshock::detect
