// What the loss did, told the way a person would: did it learn, did it collapse, when.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace foreshock::report {

struct Point {
  int64_t step = 0;
  float value = 0;  // NaN and Inf are values
};

struct LossStory {
  std::optional<float> last;       // raw
  std::optional<double> smoothed;  // EMA of 0.1 a sample, at the end
  std::optional<double> best;      // its minimum
  // The step from which the smoothed loss stays more than 0.5 above its minimum to the end, after the run had
  // learned (its minimum is at least 1 below its first smoothed value), or from which it is never finite
  // again.
  std::optional<int64_t> collapse_step;
};

// A sample is a step that `every_steps` divides: the same samples that `foreshock summary` and the trainer
// take.
LossStory TellLoss(const std::vector<Point>& loss, int64_t every_steps = 1);

// At most about `most` points that look the same: of every bucket its first, smallest, largest and last one,
// in order.
std::vector<Point> Thin(const std::vector<Point>& points, size_t most);

}  // namespace foreshock::report
