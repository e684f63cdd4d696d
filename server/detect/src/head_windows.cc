#include "head_windows.h"

#include <algorithm>
#include <limits>

namespace foreshock::detect {

HeadWindows::HeadWindows(size_t heads, size_t capacity, size_t recent)
    : length_(capacity + recent), recent_(recent), ring_(heads * length_), next_(heads), count_(heads) {}

void HeadWindows::PushAll(const HeadValues& values) {
  for (size_t head = 0; head < next_.size(); ++head) {
    if (values.present[head]) Push(head, values.value[head]);
  }
}

double HeadWindows::LevelOfSome(size_t head, size_t newest) const {
  values_.clear();
  for (size_t age = 0; age < std::min<size_t>(newest, count_[head]); ++age) values_.push_back(At(head, age));
  return MedianInPlace(values_);
}

double HeadWindows::Largest(size_t head, size_t newest) const {
  const size_t n = std::min<size_t>(newest, count_[head]);
  if (n == 0) return std::numeric_limits<double>::quiet_NaN();
  float largest = At(head, 0);
  for (size_t age = 1; age < n; ++age) largest = std::max(largest, At(head, age));
  return largest;
}

Baseline HeadWindows::Get(size_t head) const {
  values_.clear();
  for (size_t age = recent_; age < count_[head]; ++age) values_.push_back(At(head, age));
  return RobustBaseline(values_, &scratch_);
}

}  // namespace foreshock::detect
