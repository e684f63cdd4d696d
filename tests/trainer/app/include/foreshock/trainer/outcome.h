#pragma once

#include <cstdint>
#include <optional>

namespace foreshock::trainer {

// How a run went, from its sampled loss. Collapse: after the model had learned (its smoothed loss had fallen
// by at least 1 nat), the smoothed loss stays more than 0.5 nat above its minimum to the end. Smoothed:
// exponential moving average with weight 0.1 a sample. A loss that is not finite counts as above and leaves
// the average as it is.
class Outcome {
 public:
  void add(std::int64_t step, double loss);

  double smoothed() const { return smoothed_; }
  double minimum() const { return minimum_; }
  // First step of the stretch above that lasts to the latest sample.
  std::optional<std::int64_t> collapse_step() const { return above_since_; }

 private:
  bool started_ = false;
  double first_ = 0;
  double smoothed_ = 0;
  double minimum_ = 0;
  std::optional<std::int64_t> above_since_;
};

}  // namespace foreshock::trainer
