// The recent finite values of one unit of a user rule, and what a rule computes from them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "foreshock/server/detect/user_rule.h"
#include "robust.h"

namespace foreshock::detect {

// `values` is reordered. No value, or NaN where infinities cancel: nullopt.
std::optional<double> Reduce(const Reduction& reduction, std::vector<double>* values);

class UnitWindow {
 public:
  // `spare`: how many samples more than the span are kept (the newest, where the window lies before it).
  void Push(int64_t step, double value, const Span& span, int64_t spare);
  void Clear() { points_.clear(); }

  // Of the window's values, the newest left out or not. Nothing while less than half of the window, or fewer
  // than two samples, are there.
  struct Result {
    double value = 0;
    double baseline = 0;  // what the newest was compared with; NaN without one
  };
  std::optional<Result> Compute(const UserRule& rule, std::vector<double>* scratch) const;

 private:
  struct Point {
    int64_t step;
    double value;
  };
  bool Filled(const Span& span, size_t from, size_t to) const;
  std::optional<Result> Delta() const;
  std::optional<Result> Slope() const;
  std::optional<Result> AgainstPast(bool z_score, std::vector<double>* scratch) const;

  std::vector<Point> points_;  // oldest first
};

}  // namespace foreshock::detect
