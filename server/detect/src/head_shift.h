// For every head: has one signal moved away from what is normal for that head?
//
// The level is the median of the newest 5 samples, the baseline that of 48 before them. While a rule calls a
// head shifted, its baseline stands still, so that the new level does not become normal at once; after
// kThawSamples it goes on, so that a lasting and harmless change ends its alert.
#pragma once

#include <cstdint>
#include <vector>

#include "head_windows.h"
#include "run_context.h"
#include "step_view.h"

namespace foreshock::detect {

class HeadShift {
 public:
  static constexpr size_t kBaselineSamples = 48;
  static constexpr size_t kLevelSamples = 5;
  static constexpr size_t kMinBaseline = 24;
  static constexpr int kThawSamples = 60;
  static constexpr int kRefreshSamples = 8;

  explicit HeadShift(size_t heads);

  // Takes a sample of the signal. Heads of a layer whose guard was switched begin again.
  void Push(const StepView& step, const HeadValues& values, const RunContext& context);
  // The rule's judgement of a head for this sample.
  void Mark(size_t head, bool shifted, int64_t step);

  // True when the head has a baseline.
  bool Known(size_t head) const { return baseline_[head].count >= kMinBaseline; }
  double Level(size_t head) const { return level_.Level(head); }
  const Baseline& Get(size_t head) const { return baseline_[head]; }
  bool shifted(size_t head) const { return since_[head] >= 0; }
  int64_t since(size_t head) const { return since_[head]; }  // first step of the shift, -1 without one

 private:
  HeadWindows level_, past_;
  std::vector<Baseline> baseline_;
  std::vector<int64_t> since_;
  std::vector<int> shifted_samples_;
  int samples_ = 0;
};

}  // namespace foreshock::detect
