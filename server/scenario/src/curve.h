// A series of a scenario: "11~1.2x100 okx50 ok*1~8x40 NaN _x3 1.4".
//
//   3.1x40      the value for 40 samples; without xN for one
//   3..1x40     from 3 to 1 in 40 samples, in equal steps; 3~1x40 in equal ratios
//   okx40       what a healthy run shows; ok*1~8x40 the same times a factor
//   _  NaN  Inf  -Inf
// After the end the last value stays.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::scenario {

inline constexpr int64_t kMostSamples = 1'000'000;  // of a series, and of a scenario

class Curve {
 public:
  // kInvalidArgument naming the item that cannot be read.
  static Result<Curve> Parse(std::string_view text);

  // Samples that are written out.
  int64_t samples() const { return samples_; }
  bool needs_healthy() const;
  // `healthy` gives the healthy run's value of that sample. nullopt: missing.
  std::optional<double> Value(int64_t sample, const std::function<std::optional<double>()>& healthy) const;

 private:
  struct Segment {
    enum class Kind : uint8_t { kMissing, kNumber, kHealthy } kind = Kind::kNumber;
    double from = 1, to = 1;  // the value, or the factor
    bool ratios = false;
    int64_t samples = 1;
  };
  static Result<Segment> ParseItem(std::string_view item);

  std::vector<Segment> segments_;
  int64_t samples_ = 0;
};

}  // namespace foreshock::scenario
