#pragma once

#include <cstdint>

namespace foreshock::trainer {

// splitmix64: a small generator whose whole state is one number, so that a checkpoint can hold it.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next();
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }  // limit > 0; bias below 2^-40 here
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double normal();                                                          // mean 0, deviation 1

  std::uint64_t state() const { return state_; }
  void set_state(std::uint64_t state) { state_ = state; }

 private:
  std::uint64_t state_;
};

}  // namespace foreshock::trainer
