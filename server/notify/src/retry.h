// When to try again: pauses that double, with chance in them, so that many senders do not come back at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace foreshock::notify {

class Retry {
 public:
  Retry(std::chrono::nanoseconds first, std::chrono::nanoseconds last, uint64_t seed)
      : first_(first), last_(last), random_(seed) {}

  int failures() const { return failures_; }
  void Succeeded() { failures_ = 0; }
  // Nanoseconds to wait after one more failure: half to all of min(first * 2^failures, last).
  int64_t Failed() {
    const int doublings = std::min(failures_++, 30);
    const int64_t full = std::min(first_.count() * (int64_t{1} << doublings), last_.count());
    return full / 2 + static_cast<int64_t>(random_() % static_cast<uint64_t>(full / 2 + 1));
  }

 private:
  const std::chrono::nanoseconds first_, last_;
  std::mt19937_64 random_;
  int failures_ = 0;
};

}  // namespace foreshock::notify
