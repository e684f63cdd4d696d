// A set of numbers that mostly follow each other, as ranges: sequence numbers of a process, steps of a rank.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace foreshock::store {

template <typename Number>
class NumberSet {
 public:
  bool Contains(Number n) const {
    const auto after = ranges_.upper_bound(n);
    return after != ranges_.begin() && n <= std::prev(after)->second;
  }
  void Add(Number n) {
    auto after = ranges_.upper_bound(n);
    if (after != ranges_.begin()) {
      const auto before = std::prev(after);
      if (n <= before->second) return;
      if (n == before->second + 1) {
        before->second = n;
        if (after != ranges_.end() && after->first == n + 1) {
          before->second = after->second;
          ranges_.erase(after);
        }
        return;
      }
    }
    if (after != ranges_.end() && after->first == n + 1) {
      const Number last = after->second;
      ranges_.erase(after);
      ranges_[n] = last;
      return;
    }
    ranges_[n] = n;
  }
  bool empty() const { return ranges_.empty(); }
  size_t ranges() const { return ranges_.size(); }

 private:
  std::map<Number, Number> ranges_;  // first -> last
};

}  // namespace foreshock::store
