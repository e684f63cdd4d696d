// For rules about an error that ought to be zero in the mean: is a head's level away from 0, and by more than
// noise?
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

  struct State {
    double level = 0;         // median of the newest 5 samples
    double significance = 0;  // |level| over its standard error
    double scatter = 0;       // scatter of the newest 8 samples (by their differences) over this head's usual
    int64_t since = -1;       // first step of what a rule marked, -1 without
  };

  explicit SignedBias(size_t heads);

  void Push(const HeadValues& values);
  size_t heads() const { return states_.size(); }
  const State& state(size_t head) const { return states_[head]; }
  // A marked head's usual scatter stands still.
  void Mark(size_t head, bool marked, int64_t step);

 private:
  void Judge(size_t head);

  // Scatter by successive differences: a step of the level is one outlier among them.
  HeadWindows level_, recent_, past_, errors_, steps_;
  std::vector<double> last_;
  std::vector<Baseline> usual_;  // of past_
  int64_t pushes_ = 0;
  std::vector<State> states_;
};

}  // namespace foreshock::detect
