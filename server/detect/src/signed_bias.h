// For rules about an error that ought to be zero in the mean: is a head's level away from 0, and by more than
// noise?
//
// Errors of random sign begin like a bias: of 16 heads, some have three large samples of one sign at first.
// They give themselves away by their scatter, which a bias leaves as it was. So there are two degrees:
// significant against the scatter of the past, and steady: against that of the newest samples, too, the
// head's own and all heads' together.
#pragma once

#include <cstdint>
#include <vector>

#include "head_windows.h"
#include "step_view.h"

namespace foreshock::detect {

class SignedBias {
 public:
  static constexpr size_t kLevelSamples = 5;
  static constexpr size_t kBaselineSamples = 48;
  static constexpr size_t kScatterSamples = 8;
  static constexpr size_t kMinBaseline = 16;
  static constexpr int kRefreshSamples = 8;
  static constexpr size_t kMinScatterBaseline = 32;
  static constexpr size_t kMinHeads = 4;      // below, heads are not compared
  static constexpr double kSignificance = 6;  // standard errors

  struct State {
    double level = 0;         // median of the newest 5 samples
    double significance = 0;  // |level| over its standard error
    bool steady = false;      // no random errors; once true, it lasts while the head is marked
    double scatter = 0;       // scatter of the newest 8 samples (by their differences) over this head's usual
    int64_t since = -1;       // first step of what a rule marked, -1 without
  };

  explicit SignedBias(size_t heads);

  void Push(const HeadValues& values);
  size_t heads() const { return states_.size(); }
  const State& state(size_t head) const { return states_[head]; }
  // What is usual begins anew: what is measured has changed.
  void Restart();
  // In the middle head of all; 1 where there are too few heads that have a baseline.
  double middle_scatter() const;
  // A marked head's usual scatter stands still.
  void Mark(size_t head, bool marked, int64_t step);

 private:
  void Judge(size_t head);
  void JudgeSteady(size_t head, double everywhere);
  // The scatter of the newest 2 differences over the usual one, in the middle head.
  double NewestScatter();

  // Scatter by successive differences: a step of the level is one outlier among them.
  HeadWindows level_, recent_, past_, errors_, steps_;
  std::vector<double> last_;
  std::vector<Baseline> usual_;  // of past_
  int64_t pushes_ = 0;
  std::vector<State> states_;
  std::vector<double> sigma_;  // standard deviation of one sample that significance rests on; 0 without
  mutable std::vector<double> scratch_;
};

}  // namespace foreshock::detect
