// Detectors that many use, to compare with: each gives a score a step and speaks above its threshold.
// Private.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/server/detect/detector.h"

namespace foreshock::cli {

class Reference {
 public:
  virtual ~Reference() = default;
  virtual std::string name() const = 0;
  virtual double threshold() const = 0;  // as it is in common use
  // The score of a step; nothing where the step holds nothing for it. NaN and Inf of what it looks at are
  // infinite.
  virtual std::optional<double> Score(const detect::StepSample& sample) = 0;
};

// For one run: largest logit over 100; loss, and gradient norm, 6 standard deviations over their mean of 128
// samples; loss twice its running mean of 10 away from it, as Lightning's SpikeDetection has it; and the
// score of qk_runaway, so that it can be treated alike (below 0.8 it tells none, and 0 stands for that).
std::vector<std::unique_ptr<Reference>> MakeReferences(const detect::RunInfo& info);

// Which of them is Foreshock's own.
inline constexpr char kOwnScore[] = "qk_runaway, its score";

}  // namespace foreshock::cli
