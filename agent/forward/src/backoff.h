// How long to wait before the next try.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace foreshock::agent {

// Doubles from `initial` up to `max`; every wait is a random half to whole of that, so that many senders do
// not come back at the same moment. One thread.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds initial, std::chrono::milliseconds max, uint64_t seed);
  std::chrono::milliseconds Next();
  // After a success.
  void Reset() { current_ = initial_; }

 private:
  const std::chrono::milliseconds initial_;
  const std::chrono::milliseconds max_;
  std::chrono::milliseconds current_;
  std::mt19937_64 random_;
};

}  // namespace foreshock::agent
