// A robust window a head, in flat arrays: recent level and own baseline of one signal for every head.
#pragma once

#include <algorithm>
#include <cmath>
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

  void Push(size_t head, double value) {
    if (!std::isfinite(value)) return;
    uint32_t& next = next_[head];
    ring_[head * length_ + next] = static_cast<float>(value);
    if (++next == length_) next = 0;
    if (count_[head] < length_) ++count_[head];
  }
  // As Push for every head that is present; missing ones are left as they are.
  void PushAll(const HeadValues& values);
  void Clear(size_t head) { count_[head] = 0; }

  // NaN before the first value. The median of the newest `newest` values of those, too.
  double Level(size_t head) const { return Level(head, recent_); }
  double Level(size_t head, size_t newest) const {
    const float* ring = ring_.data() + head * length_;
    // A full window's median does not ask for the order.
    if (count_[head] == length_ && newest >= length_) {
      if (length_ == 3) return MedianOf3(ring[0], ring[1], ring[2]);
      if (length_ == 5) return MedianOf5(ring);
    }
    return LevelOfSome(head, newest);
  }
  // Of the newest `newest` values; NaN before the first.
  double Largest(size_t head, size_t newest) const;
  // count 0 until the window holds more than `recent` values.
  Baseline Get(size_t head) const;
  // How many values are behind Get().
  size_t BaselineCount(size_t head) const { return count_[head] > recent_ ? count_[head] - recent_ : 0; }

 private:
  // Without branches: which value is the middle one cannot be foreseen.
  static float MedianOf3(float a, float b, float c) {
    return std::max(std::min(a, b), std::min(std::max(a, b), c));
  }
  static float MedianOf5(const float* v) {
    const float low = std::max(std::min(v[0], v[1]), std::min(v[2], v[3]));
    const float high = std::min(std::max(v[0], v[1]), std::max(v[2], v[3]));
    return MedianOf3(low, high, v[4]);
  }
  float At(size_t head, size_t age) const {
    const size_t next = next_[head];
    return ring_[head * length_ + (next > age ? next : next + length_) - 1 - age];
  }
  // Level of a window that is not full, or of a part of it.
  double LevelOfSome(size_t head, size_t newest) const;

  size_t length_, recent_;
  std::vector<float> ring_;
  std::vector<uint32_t> next_, count_;
  mutable std::vector<double> values_, scratch_;
};

}  // namespace foreshock::detect
