// How remarkably each head of a run grows in one signal (docs/design/2026-11-29-detection.md).
//
// Four features a head, none of which knows the model's size, learning rate or loss:
//   slope   d log(value) / d log(step) over the last 200 steps: healthy growth is a power of the run's age
//   with a
//           small exponent, a runaway is exponential and its exponent rises without bound
//   z       slope less the median head's, in units of what is usual between the heads of this run
//   level   log(value / median head's value)
//   growth  log growth over the last fifth of the run's age, less the median head's
// The score is their geometric mean, each divided by what is remarkable alone. It is high only when all four
// are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "foreshock/server/detect/qk_runaway_constants.h"

namespace foreshock::detect {

class GrowthTracker {
 public:
  struct Features {
    double slope = 0, z = 0, level = 0, growth = 0;
    double rate = 0;  // of the log value, a step, over the same window as slope
    double score = 0;
  };

  // Parameters of the score; the defaults are what the rules use.
  struct Scales {
    double slope = 1.5;  // grows as the 1.5th power of the run's age
    double z = 7;  // seven times the usual spread between heads, for 16 heads; more where there are more
    double level = 0.693;   // twice the median head
    double growth = 0.693;  // doubled against the median head
  };

  explicit GrowthTracker(size_t heads, const QkRunawayConstants& constants = {})
      : constants_(constants), scores_(heads) {}

  // `logs`: log of the value a head, NaN where it is missing or not finite. Steps must rise.
  void Update(int64_t step, std::span<const double> logs);
  // Forgets everything: what the values mean has changed.
  void Clear();

  size_t heads() const { return scores_.size(); }
  // Of the last Update; 0 while there is no baseline.
  double score(size_t head) const { return scores_[head]; }
  // All of a head; only the score is kept ready, for few heads are asked for the rest.
  Features Of(size_t head) const;
  bool ready() const { return ready_; }
  // First step of the window over which the slope was taken.
  int64_t window_start() const { return window_start_; }
  // The median head's log value.
  double median_log() const { return median_log_; }

 private:
  struct Snapshot {
    int64_t step;
    std::vector<float> logs;
  };
  struct Spread {
    int64_t step;
    double value;
  };

  // Newest snapshot at or before `step` and at least `back` samples old; nullptr when there is none.
  const Snapshot* Before(int64_t step, size_t back) const;
  double UsualSpread(int64_t before) const;
  double Z(size_t head) const { return (slopes_[head] - median_slope_) / usual_spread_; }
  double Growth(size_t head) const { return growths_[head] - median_growth_; }
  double Level(size_t head) const { return relative_ ? logs_[head] - median_log_ : Growth(head); }
  // Of those whose four features are all above 0; the others' stay 0.
  void Score(double youth, size_t measured);
  void Trim(int64_t step);

  static constexpr size_t kWindowSamples = 5;
  static constexpr double kWindowShare = 0.05;  // of the run's age, when that is longer
  static constexpr size_t kSpreads = 110;
  static constexpr size_t kMinSpreads = 8;
  static constexpr double kSpacingShare = 0.001;  // of the run's age, between snapshots: about 250 are kept
  static constexpr double kMinSpread = 0.02;
  static constexpr size_t kMinHeads = 4;  // fewer have no median head: a head is then its own measure

  QkRunawayConstants constants_;
  std::deque<Snapshot> history_;
  std::deque<Spread> spreads_;
  std::vector<double> scores_;
  std::vector<double> scratch_, mad_scratch_;
  std::vector<uint32_t> rising_;  // scratch of Score
  // Of the last Update, a head and of all; they mean something when it is ready.
  std::vector<double> logs_, slopes_, growths_;
  double log_age_ = 0, window_steps_ = 0, median_slope_ = 0, usual_spread_ = 0, median_growth_ = 0;
  bool relative_ = false;
  bool ready_ = false;
  int64_t window_start_ = 0;
  double median_log_ = 0;
};

}  // namespace foreshock::detect
