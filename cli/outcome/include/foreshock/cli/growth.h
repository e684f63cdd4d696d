// Which head's signal grows? For a person who watches: one head and one factor. Not a rule: detection is the
// server's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace foreshock::cli {

struct HeadSample {
  uint32_t layer = 0;
  uint32_t head = 0;
  double value = 0;
};

struct HeadGrowth {
  uint32_t layer = 0;
  uint32_t head = 0;
  double value = 0;   // now
  double factor = 0;  // growth since the reference over the median head's: 1 is "as all others"
};

// Compares each head with itself some samples ago, relative to the median head. Not thread-safe.
class GrowthTracker {
 public:
  // The reference is the sample `samples_back` samples before the newest, or the oldest one.
  explicit GrowthTracker(size_t samples_back = 20) : samples_back_(samples_back) {}

  // One sample: all heads of a signal at one step. A head that is not finite is reported at once, with an
  // infinite factor; values of 0 or below cannot grow and are left out. nullopt while there is nothing to
  // compare with.
  std::optional<HeadGrowth> Add(std::span<const HeadSample> heads);

 private:
  size_t samples_back_;
  std::vector<std::vector<HeadSample>> history_;
};

}  // namespace foreshock::cli
