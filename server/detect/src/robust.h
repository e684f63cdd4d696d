// Median and MAD: baselines that one NaN or one spike cannot poison.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace foreshock::detect {

// Median of finite values. NaN when the span is empty. Even counts give the mean of the middle two. What the
// span holds afterwards is not told: of many values only those near the middle are kept.
double MedianInPlace(std::span<double> values);

struct Baseline {
  double median = 0;
  double scale = 0;  // 1.4826 * MAD: the standard deviation of a normal distribution with this MAD
  size_t count = 0;  // values behind it; 0: there is no baseline
};

// Robust location and scale of finite values; `scratch` avoids allocations in loops.
Baseline RobustBaseline(std::span<const double> values, std::vector<double>* scratch);

// The last `capacity` finite values before the newest `lag` ones. NaN and Inf are not taken.
class RobustWindow {
 public:
  explicit RobustWindow(size_t capacity, size_t lag = 0);

  void Push(double value);
  void Clear();
  // Of the values that are older than the newest `lag`.
  Baseline Get() const;
  // Median of the newest `n` values (fewer when there are fewer); NaN when there is none.
  double Recent(size_t n) const;
  size_t size() const { return count_; }

 private:
  double At(size_t age) const { return ring_[(next_ + ring_.size() - 1 - age) % ring_.size()]; }

  size_t lag_;
  std::vector<double> ring_;
  size_t next_ = 0;
  size_t count_ = 0;
};

}  // namespace foreshock::detect
