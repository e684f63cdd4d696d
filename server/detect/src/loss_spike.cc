// loss_spike: single batches with a loss far above the level. Usually benign: info. It warns when most of a
// few dozen steps spike.
#include <algorithm>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr double kNoises = 8;
constexpr double kShareLearned = 0.15;
constexpr int kManySpikes = 5;
constexpr size_t kFrames = 20;

class LossSpike final : public Rule {
 public:
  std::string_view name() const override { return "loss_spike"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    const auto loss = step.FiniteScalar(kLoss);
    const LossTrack& track = context.loss();
    if (!loss || !track.known() || track.blocks() < 10) return std::nullopt;
    const double learned = std::max(track.initial() - track.best(), 0.0);
    const double high =
        std::max({kNoises * track.frame_noise(), kShareLearned * learned, 0.05 * track.level()});
    const bool spike = *loss - track.level() > high;
    recent_.push_back(spike);
    if (recent_.size() > kFrames) recent_.erase(recent_.begin());
    std::vector<Finding> findings;
    if (!spike) return findings;
    const auto spikes = std::count(recent_.begin(), recent_.end(), true);
    Finding finding = RunFinding(step, spikes >= kManySpikes ? Severity::kWarning : Severity::kInfo);
    finding.value = *loss;
    finding.baseline = track.level();
    finding.evidence = {{"loss", *loss, track.level()},
                        {"spikes in the last 20 frames", static_cast<double>(spikes), 0}};
    finding.summary = "loss " + Short(*loss) + ", usually " + Short(track.level());
    findings.push_back(std::move(finding));
    return findings;
  }

 private:
  std::vector<bool> recent_;
};

}  // namespace

std::unique_ptr<Rule> MakeLossSpike() { return std::make_unique<LossSpike>(); }

}  // namespace foreshock::detect
