// Plain means over the last few samples of every head, for what adds up: there a median would lose the sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "step_view.h"

namespace foreshock::detect {

class MovingMeans {
 public:
  static constexpr size_t kSamples = 10;

  explicit MovingMeans(size_t heads) : ring_(heads * kSamples), count_(heads) {}

  // NaN and Inf are not taken.
  void Push(size_t head, double value);
  bool Full(size_t head) const { return count_[head] >= kSamples; }
  double Sum(size_t head) const;  // of the samples there are, at most kSamples
  double Mean(size_t head) const { return Sum(head) / static_cast<double>(kSamples); }  // of a full window

 private:
  std::vector<float> ring_;
  std::vector<uint64_t> count_;
};

// Single steps that a value sums over: its weight, 1 where none travels.
double StepsBehind(const HeadValues& values, size_t head);

// Pushes, for every head, the signed share of the update's norm along the first singular pair. Nothing where
// the norm of the update is not measured.
void PushShares(const StepView& step, MovingMeans* shares);

}  // namespace foreshock::detect
