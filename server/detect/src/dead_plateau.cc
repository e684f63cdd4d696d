// dead_plateau: the loss rose and then stands still, far above where it had been; or it never fell at all; or
// it stopped falling early while most heads look at one key only.
#include <algorithm>
#include <cmath>
#include <deque>
#include <string>

#include "finding_util.h"
#include "foreshock/base/catalogue.h"
#include "head_windows.h"
#include "rules.h"

namespace foreshock::detect {
namespace {

constexpr size_t kBlocks = 60;
constexpr double kFlat = 0.25;         // of the excess: less movement over half of the blocks is none
constexpr int64_t kNeverBlocks = 200;  // 2,000 steps and more
constexpr double kNeverShare = 0.02;   // of the first loss
// The loss of a run that learns falls by a constant part whenever the run's age doubles, or so: from a sixth
// of the age on, recorded healthy runs learned 10 % and more of all they had learned. Runs whose heads a far
// too large learning rate had saturated learned 2 % at most.
constexpr double kEarly = 1.0 / 6;
constexpr double kStoodStill = 0.03;
constexpr double kFromScratch =
    0.2;  // of the first loss was learned; a fine-tuning or a resumed run is no such run
constexpr int64_t kGrownUpSteps = 1000;
constexpr double kSaturatedRows = 0.5;   // of a head
constexpr double kSaturatedHeads = 0.5;  // of all
constexpr double kPointSpacing = 1.02;   // of the run's age, between the levels that are kept

class DeadPlateau final : public Rule {
 public:
  explicit DeadPlateau(size_t heads) : saturated_(heads, 0, 5), heads_(heads) {}
  std::string_view name() const override { return "dead_plateau"; }

  std::optional<std::vector<Finding>> Judge(const StepView& step, const RunContext& context) override {
    const HeadValues& saturated = step.Heads(kSaturatedRowFraction);
    if (saturated.any) saturated_.PushAll(saturated);
    if (context.samples_since_disturbance() == 0) points_.clear();
    const LossTrack& track = context.loss();
    if (!context.new_loss_level() || !track.known()) return std::nullopt;
    std::vector<Finding> findings;
    Keep(step.step(), track.level());
    if (!track.above()) {
      levels_.clear();
      if (auto stuck = StoppedEarly(step, track)) {
        findings.push_back(*std::move(stuck));
      } else if (track.blocks() >= kNeverBlocks &&
                 track.initial() - track.best() < kNeverShare * track.initial()) {
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
  struct Point {
    int64_t step;
    double level;
  };

  void Keep(int64_t step, double level) {
    const double last = points_.empty() ? -1 : static_cast<double>(points_.back().step);
    if (static_cast<double>(step) >= kPointSpacing * last) points_.push_back({step, level});
    const double early = kEarly * static_cast<double>(step);
    while (points_.size() > 1 && static_cast<double>(points_[1].step) <= early) points_.pop_front();
  }

  std::optional<Finding> StoppedEarly(const StepView& step, const LossTrack& track) const {
    const Point& then = points_.front();
    const double learned = track.initial() - track.level();
    if (step.step() < kGrownUpSteps ||
        static_cast<double>(then.step) > kEarly * static_cast<double>(step.step()))
      return std::nullopt;
    if (!(learned > kFromScratch * track.initial()) || then.level - track.level() > kStoodStill * learned)
      return std::nullopt;
    const size_t saturated = SaturatedHeads();
    if (!(static_cast<double>(saturated) >= kSaturatedHeads * static_cast<double>(heads_)) || saturated == 0)
      return std::nullopt;
    Finding finding =
        Make(step, track, Severity::kCritical,
             "has stood still at " + Short(track.level()) + " since step " + std::to_string(then.step) +
                 ", while " + std::to_string(saturated) + " of " + std::to_string(heads_) +
                 " heads put all their weight on one key: too large a learning rate, or bad initial weights");
    finding.first_step = then.step;
    finding.evidence.push_back({"heads that saturate", static_cast<double>(saturated), 0});
    return finding;
  }

  size_t SaturatedHeads() const {
    size_t count = 0;
    for (size_t head = 0; head < heads_; ++head) count += saturated_.Level(head) >= kSaturatedRows ? 1 : 0;
    return count;
  }

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

  HeadWindows saturated_;
  size_t heads_;
  std::deque<double> levels_;
  std::deque<Point>
      points_;  // of the level, oldest first; the first is the last one before a sixth of the age
  int64_t since_ = 0;
};

}  // namespace

std::unique_ptr<Rule> MakeDeadPlateau(const RunInfo& info) {
  return std::make_unique<DeadPlateau>(size_t{info.layers} * info.heads);
}

}  // namespace foreshock::detect
