// loss_divergence: the loss went up and stays up. Late, but about every kind of failure.
#include <algorithm>
#include <cmath>
#include <deque>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr int kWarningBlocks = 3;
constexpr int kCriticalBlocks = 25;  // 250 to 500 steps: what recovers has begun to by then
constexpr int kFewBlocks = 10;       // enough where blocks are far apart
constexpr int64_t kCriticalSteps = 500;
constexpr double kRecovering = 0.75;  // of the highest excess: below, it is on its way back
constexpr double kHeld = 0.5;         // what rose counts as risen until it lost half of the threshold
constexpr int kBrokenFrames = 5;      // in a row, at the very start
constexpr int kStartFrames = 30;
constexpr double kBrokenFactor = 2;

class LossDivergence final : public Rule {
 public:
  std::string_view name() const override { return "loss_divergence"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    const auto loss = step.FiniteScalar(kLoss);
    if (!loss) return std::nullopt;
    if (auto broken = AtStart(step, *loss)) return std::vector<Finding>{*std::move(broken)};
    if (!context.new_loss_level()) return std::nullopt;
    const LossTrack& track = context.loss();
    std::vector<Finding> findings;
    const double excess = track.level() - track.best();
    const double needed = track.threshold() * (blocks_above_ > 0 ? kHeld : 1);
    if (!track.known() || !(excess > needed)) {
      blocks_above_ = 0;
      critical_ = false;
      return findings;
    }
    if (blocks_above_++ == 0) {
      since_ = step.step();
      highest_ = excess;
    }
    highest_ = std::max(highest_, excess);
    if (blocks_above_ < kWarningBlocks) return findings;
    const bool recovering = excess < kRecovering * highest_;
    // Once critical, it stays so until the loss is back near its best.
    const bool long_enough = blocks_above_ >= kCriticalBlocks ||
                             (blocks_above_ >= kFewBlocks && step.step() - since_ >= kCriticalSteps);
    critical_ = critical_ || (long_enough && !recovering);
    Finding finding = RunFinding(step, critical_ ? Severity::kCritical : Severity::kWarning);
    finding.first_step = since_;
    finding.value = track.level();
    finding.baseline = track.best();
    finding.evidence = {{"loss, median of 9 blocks", track.level(), track.best()},
                        {"rise that is noise at most", excess, track.threshold()}};
    finding.summary = "the loss is " + Short(excess) + " above its best level of " + Short(track.best()) +
                      " since step " + std::to_string(since_) + (recovering ? ", and falls again" : "");
    findings.push_back(std::move(finding));
    return findings;
  }

 private:
  // A run whose loss doubles at once and stays there never trained: a broken set-up, no time to lose.
  std::optional<Finding> AtStart(const StepView& step, double loss) {
    if (++frames_ == 1) first_ = loss;
    if (frames_ > kStartFrames && broken_frames_ < kBrokenFrames) return std::nullopt;
    broken_frames_ = loss > kBrokenFactor * first_ ? broken_frames_ + 1 : 0;
    if (broken_frames_ < kBrokenFrames) return std::nullopt;
    Finding finding = RunFinding(step, Severity::kCritical);
    finding.value = loss;
    finding.baseline = first_;
    finding.evidence = {{"loss", loss, first_}};
    finding.summary = "the loss went from " + Short(first_) + " to " + Short(loss) +
                      " within the first steps: check the set-up, not the model";
    return finding;
  }

  int64_t frames_ = 0;
  double first_ = 0;
  int broken_frames_ = 0;
  int blocks_above_ = 0;
  bool critical_ = false;
  int64_t since_ = 0;
  double highest_ = 0;
};

}  // namespace

std::unique_ptr<Rule> MakeLossDivergence() { return std::make_unique<LossDivergence>(); }

}  // namespace foreshock::detect
