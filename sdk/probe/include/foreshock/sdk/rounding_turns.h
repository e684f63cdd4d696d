// Which layers a sampled step measures rounding in: on a device that is the dearest of the signals, so layers
// take turns.
//
// Work is counted in multiply-adds of one product (q k, P V). Every ten steps earn kWorkOfTenSteps, or, where
// that is more, a twentieth of what all layers' rows would be; sampled steps spend what was earned on the
// layers whose turn it is. So small models measure every layer at every sample, larger ones a few or one at
// every second sample, and sampling every step costs rounding no more than sampling every tenth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace foreshock::sdk {

class RoundingTurns {
 public:
  // About six tenths of a layer of 16 sequences of 1,024 tokens, 12 heads of 64, with one row in eight.
  static constexpr double kWorkOfTenSteps = 5e8;

  explicit RoundingTurns(size_t layers) : work_(layers) {}

  // A sampled step begins, `steps` after the last one. A layer whose work is not known yet is measured: so
  // the first sampled step measures all.
  void Next(int64_t steps) noexcept;
  // What the layer's last call cost, or would have.
  void SetWork(size_t layer, double multiply_adds) noexcept { work_[layer] = multiply_adds; }

  bool Has(size_t layer) const noexcept {
    const size_t behind = layer + (layer < first_ ? work_.size() : 0) - first_;
    return behind < count_;
  }
  // The same as a range that is counted round.
  size_t first() const noexcept { return first_; }
  size_t count() const noexcept { return count_; }

 private:
  std::vector<double> work_;
  double earned_ = 0;
  size_t first_ = 0, count_ = 0;
};

}  // namespace foreshock::sdk
