#include "backoff.h"

#include <algorithm>

namespace foreshock::agent {

Backoff::Backoff(std::chrono::milliseconds initial, std::chrono::milliseconds max, uint64_t seed)
    : initial_(std::max(initial, std::chrono::milliseconds(1))),
      max_(std::max(max, initial_)),
      current_(initial_),
      random_(seed) {}

std::chrono::milliseconds Backoff::Next() {
  const auto whole = current_.count();
  current_ = std::min(current_ * 2, max_);
  std::uniform_int_distribution<int64_t> half_to_whole((whole + 1) / 2, whole);
  return std::chrono::milliseconds(half_to_whole(random_));
}

}  // namespace foreshock::agent
