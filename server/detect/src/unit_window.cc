#include "unit_window.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace foreshock::detect {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastScaleShare = 1e-3;  // of the median: a constant past is no infinitely sharp one

// Linear between the two nearest ranks.
double Quantile(double q, std::vector<double>* values) {
  std::sort(values->begin(), values->end());
  const double at = q * static_cast<double>(values->size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values->size() - 1);
  const double share = at - static_cast<double>(low);
  if (share == 0) return (*values)[low];
  return (*values)[low] + share * ((*values)[high] - (*values)[low]);
}

double ReduceSome(const Reduction& reduction, std::vector<double>* values) {
  using Kind = Reduction::Kind;
  const auto [least, most] = std::minmax_element(values->begin(), values->end());
  switch (reduction.kind) {
    case Kind::kMax:
      return *most;
    case Kind::kMin:
      return *least;
    case Kind::kSpread:
      return *most - *least;
    case Kind::kSum:
      return std::accumulate(values->begin(), values->end(), 0.0);
    case Kind::kMean:
      return std::accumulate(values->begin(), values->end(), 0.0) / static_cast<double>(values->size());
    case Kind::kMedian:
      return MedianInPlace(*values);
    case Kind::kQuantile:
      return Quantile(reduction.quantile, values);
  }
  return kNan;
}

}  // namespace

std::optional<double> Reduce(const Reduction& reduction, std::vector<double>* values) {
  std::erase_if(*values, [](double value) { return std::isnan(value); });
  if (values->empty()) return std::nullopt;
  const double value = ReduceSome(reduction, values);
  if (std::isnan(value)) return std::nullopt;
  return value;
}

void UnitWindow::Push(int64_t step, double value, const Span& span, int64_t spare) {
  if (!std::isfinite(value)) return;
  points_.push_back({step, value});
  const auto most = static_cast<size_t>((span.steps > 0 ? kMaxWindowSamples : span.samples) + spare);
  size_t drop = points_.size() > most ? points_.size() - most : 0;
  if (span.steps > 0) {
    while (drop < points_.size() && step - points_[drop].step > span.steps) ++drop;
  }
  points_.erase(points_.begin(), points_.begin() + static_cast<ptrdiff_t>(drop));
}

bool UnitWindow::Filled(const Span& span, size_t from, size_t to) const {
  if (to < from + 2) return false;
  if (span.steps > 0) return 2 * (points_.back().step - points_[from].step) >= span.steps;
  return 2 * static_cast<int64_t>(to - from) >= span.samples;
}

std::optional<UnitWindow::Result> UnitWindow::Compute(const UserRule& rule,
                                                      std::vector<double>* scratch) const {
  const size_t n = points_.size();
  switch (rule.function) {
    case WindowFunction::kDelta:
      return Filled(rule.window, 0, n) ? Delta() : std::nullopt;
    case WindowFunction::kSlope:
      return Filled(rule.window, 0, n) ? Slope() : std::nullopt;
    case WindowFunction::kRatioToMedian:
    case WindowFunction::kZScore:
      if (n == 0 || !Filled(rule.window, 0, n - 1)) return std::nullopt;
      return AgainstPast(rule.function == WindowFunction::kZScore, scratch);
    case WindowFunction::kReduce: {
      if (!Filled(rule.window, 0, n)) return std::nullopt;
      scratch->clear();
      for (const Point& point : points_) scratch->push_back(point.value);
      const auto value = Reduce(rule.window_reduction, scratch);
      if (!value) return std::nullopt;
      return Result{*value, kNan};
    }
    default:
      return std::nullopt;
  }
}

std::optional<UnitWindow::Result> UnitWindow::Delta() const {
  return Result{points_.back().value - points_.front().value, points_.front().value};
}

std::optional<UnitWindow::Result> UnitWindow::Slope() const {
  const auto n = static_cast<double>(points_.size());
  double mean_step = 0, mean_value = 0;
  for (const Point& point : points_) {
    mean_step += static_cast<double>(point.step - points_.front().step) / n;
    mean_value += point.value / n;
  }
  double over = 0, under = 0;
  for (const Point& point : points_) {
    const double x = static_cast<double>(point.step - points_.front().step) - mean_step;
    over += x * (point.value - mean_value);
    under += x * x;
  }
  if (!(under > 0)) return std::nullopt;
  return Result{over / under, kNan};
}

std::optional<UnitWindow::Result> UnitWindow::AgainstPast(bool z_score, std::vector<double>* scratch) const {
  std::vector<double> past;
  past.reserve(points_.size());
  for (size_t i = 0; i + 1 < points_.size(); ++i) past.push_back(points_[i].value);
  const Baseline usual = RobustBaseline(past, scratch);
  const double newest = points_.back().value;
  if (!z_score) {
    if (usual.median == 0) return std::nullopt;
    return Result{newest / usual.median, usual.median};
  }
  const double scale = std::max(usual.scale, kLeastScaleShare * std::abs(usual.median));
  if (newest == usual.median) return Result{0, usual.median};
  return Result{(newest - usual.median) / scale, usual.median};
}

}  // namespace foreshock::detect
