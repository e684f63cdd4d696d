// Did a run collapse, by its loss alone? Pure arithmetic over samples; the definition that the summary,
// `watch` and the documentation share.
//
// The loss is smoothed by an exponential moving average of weight 0.1 a sample. A run has learned when the
// smoothed loss has fallen by at least 1 nat below its first value. It has collapsed when, after that, the
// smoothed loss stays more than 0.5 above its minimum so far, up to the last sample. A loss that is not
// finite counts as above and leaves the average as it is.
#pragma once

#include <cstdint>
#include <optional>

namespace foreshock::cli {

class LossOutcome {
 public:
  // Steps must rise.
  void Add(int64_t step, double loss);

  std::optional<double> smoothed() const { return smoothed_; }  // nullopt before the first finite loss
  std::optional<double> minimum() const { return minimum_; }
  bool learned() const;
  // First step of the stretch above that lasts to the last sample.
  std::optional<int64_t> collapse_step() const { return above_since_; }
  std::optional<int64_t> last_step() const { return last_step_; }

 private:
  bool Above(double loss) const;

  std::optional<double> first_, smoothed_, minimum_;
  std::optional<int64_t> above_since_, last_step_;
};

}  // namespace foreshock::cli
