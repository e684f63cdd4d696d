#include "robust.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::detect {
namespace {

constexpr double kMadToSigma = 1.4826;
constexpr size_t kFew = 12;

// Insertion sort: for the few values of a level it beats any selection.
void SortFew(std::span<double> values) {
  for (size_t i = 1; i < values.size(); ++i) {
    const double value = values[i];
    size_t at = i;
    for (; at > 0 && values[at - 1] > value; --at) values[at] = values[at - 1];
    values[at] = value;
  }
}

}  // namespace

double MedianInPlace(std::span<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const size_t middle = values.size() / 2;
  if (values.size() <= kFew) {
    SortFew(values);
    return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
  }
  std::nth_element(values.begin(), values.begin() + middle, values.end());
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  return 0.5 * (upper + *std::max_element(values.begin(), values.begin() + middle));
}

Baseline RobustBaseline(std::span<const double> values, std::vector<double>* scratch) {
  Baseline baseline;
  baseline.count = values.size();
  if (values.empty()) return baseline;
  scratch->assign(values.begin(), values.end());
  baseline.median = MedianInPlace(*scratch);
  for (double& value : *scratch) value = std::abs(value - baseline.median);
  baseline.scale = kMadToSigma * MedianInPlace(*scratch);
  return baseline;
}

RobustWindow::RobustWindow(size_t capacity, size_t lag) : lag_(lag), ring_(capacity + lag) {}

void RobustWindow::Push(double value) {
  if (!std::isfinite(value)) return;
  ring_[next_] = value;
  next_ = (next_ + 1) % ring_.size();
  count_ = std::min(count_ + 1, ring_.size());
}

void RobustWindow::Clear() { count_ = next_ = 0; }

Baseline RobustWindow::Get() const {
  std::vector<double> values, scratch;
  for (size_t age = lag_; age < count_; ++age) values.push_back(At(age));
  return RobustBaseline(values, &scratch);
}

double RobustWindow::Recent(size_t n) const {
  std::vector<double> values;
  for (size_t age = 0; age < std::min(n, count_); ++age) values.push_back(At(age));
  return MedianInPlace(values);
}

}  // namespace foreshock::detect
