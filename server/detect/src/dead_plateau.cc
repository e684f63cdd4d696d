// dead_plateau: the loss rose and then stands still, far above where it had been; or it never fell at all.
#include <cmath>
#include <deque>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr size_t kBlocks = 60;
constexpr double kFlat = 0.25;         // of the excess: less movement over half of the blocks is none
constexpr int64_t kNeverBlocks = 200;  // 2,000 steps and more
constexpr double kNeverShare = 0.02;   // of the first loss

class DeadPlateau final : public Rule {
 public:
  std::string_view name() const override { return "dead_plateau"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    const LossTrack& track = context.loss();
    if (!context.new_loss_level() || !track.known()) return std::nullopt;
    std::vector<Finding> findings;
    if (!track.above()) {
      levels_.clear();
      if (track.blocks() >= kNeverBlocks && track.initial() - track.best() < kNeverShare * track.initial()) {
        findings.push_back(Make(step, track, Severity::kInfo, "has not fallen since the first step"));
      }
      return findings;
    }
    if (levels_.empty()) since_ = step.step();
    levels_.push_back(track.level());
    if (levels_.size() > kBlocks) levels_.pop_front();
    if (levels_.size() < kBlocks) return findings;
    const double excess = track.level() - track.best();
    const double moved = std::abs(levels_.back() - levels_[kBlocks / 2]);
    if (moved > kFlat * excess) return findings;
    findings.push_back(
        Make(step, track, Severity::kCritical,
             "stands still at " + Short(track.level()) + ", " + Short(excess) + " above its best"));
    findings.back().first_step = since_;
    return findings;
  }

 private:
  static Finding Make(const StepView& step, const LossTrack& track, Severity severity,
                      const std::string& what) {
    Finding finding = RunFinding(step, severity);
    finding.value = track.level();
    finding.baseline = track.best();
    finding.evidence = {{"loss, median of 9 blocks", track.level(), track.best()},
                        {"first loss", track.initial(), track.initial()}};
    finding.summary = "the loss " + what;
    return finding;
  }

  std::deque<double> levels_;
  int64_t since_ = 0;
};

}  // namespace

std::unique_ptr<Rule> MakeDeadPlateau() { return std::make_unique<DeadPlateau>(); }

}  // namespace foreshock::detect
