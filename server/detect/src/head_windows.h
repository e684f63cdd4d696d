// A robust window a head, in flat arrays: recent level and own baseline of one signal for every head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "robust.h"
#include "step_view.h"

namespace foreshock::detect {

// Values are kept as float, 4 * (capacity + recent) bytes a head. A head's window holds only its finite
// values, so a NaN neither enters nor shifts anything.
class HeadWindows {
 public:
  // The level is the median of the newest `recent` values, the baseline that of up to `capacity` values
  // before them.
  HeadWindows(size_t heads, size_t capacity, size_t recent);

  void Push(size_t head, double value);
  // As Push for every head that is present; missing ones are left as they are.
  void PushAll(const HeadValues& values);
  void Clear(size_t head) { count_[head] = 0; }

  // NaN before the first value. The median of the newest `newest` values of those, too.
  double Level(size_t head) const { return Level(head, recent_); }
  double Level(size_t head, size_t newest) const;
  // Of the newest `newest` values; NaN before the first.
  double Largest(size_t head, size_t newest) const;
  // count 0 until the window holds more than `recent` values.
  Baseline Get(size_t head) const;
  // How many values are behind Get().
  size_t BaselineCount(size_t head) const { return count_[head] > recent_ ? count_[head] - recent_ : 0; }

 private:
  float At(size_t head, size_t age) const;

  size_t length_, recent_;
  std::vector<float> ring_;
  std::vector<uint32_t> next_, count_;
  mutable std::vector<double> values_, scratch_;
};

}  // namespace foreshock::detect
