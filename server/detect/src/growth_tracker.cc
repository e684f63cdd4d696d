#include "growth_tracker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "robust.h"

namespace foreshock::detect {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr GrowthTracker::Scales kScales;

double Positive(double x) { return x > 0 ? x : 0; }

}  // namespace

void GrowthTracker::Clear() {
  history_.clear();
  spreads_.clear();
  std::fill(features_.begin(), features_.end(), Features());
  ready_ = false;
}

const GrowthTracker::Snapshot* GrowthTracker::Before(int64_t step, size_t back) const {
  if (history_.size() <= back) return nullptr;
  const auto end = history_.end() - back;
  const auto it = std::upper_bound(history_.begin(), end, step,
                                   [](int64_t s, const Snapshot& snap) { return s < snap.step; });
  return it == history_.begin() ? nullptr : &*std::prev(it);
}

double GrowthTracker::UsualSpread(int64_t before) const {
  std::vector<double> values;
  for (const Spread& spread : spreads_) {
    if (spread.step <= before) values.push_back(spread.value);
  }
  if (values.size() < kMinSpreads) return kNan;
  return std::max(MedianInPlace(values), kMinSpread);
}

void GrowthTracker::Update(int64_t step, std::span<const double> logs) {
  ready_ = false;
  std::fill(features_.begin(), features_.end(), Features());
  // Old runs are looked at over longer spans, so that snapshots may lie further apart.
  if (history_.empty() ||
      static_cast<double>(step - history_.back().step) >= kSpacingShare * static_cast<double>(step)) {
    history_.push_back({step, std::vector<float>(logs.begin(), logs.end())});
  }
  const int64_t window =
      std::max(constants_.window_steps, static_cast<int64_t>(kWindowShare * static_cast<double>(step)));
  const Snapshot* start = Before(step - window, kWindowSamples);
  if (!start) return;
  window_start_ = start->step;
  const double log_age =
      std::log(static_cast<double>(step) / std::max<double>(static_cast<double>(start->step), 20));

  slopes_.assign(logs.size(), kNan);
  scratch_.clear();
  for (size_t head = 0; head < logs.size(); ++head) {
    slopes_[head] = (logs[head] - start->logs[head]) / log_age;
    if (std::isfinite(slopes_[head])) scratch_.push_back(slopes_[head]);
  }
  const bool relative = scratch_.size() >= kMinHeads;
  const Baseline between = RobustBaseline(scratch_, &mad_scratch_);
  if (between.count == 0) return;
  const double usual = UsualSpread(start->step);
  if (history_.back().step == step) {
    spreads_.push_back({step, relative ? between.scale : std::abs(between.median)});
  }
  if (spreads_.size() > kSpreads) spreads_.pop_front();
  Trim(step);
  // Everything grows in a young run.
  const double windows = static_cast<double>(step) / static_cast<double>(window);
  if (std::isnan(usual) || windows < constants_.young_windows) return;

  const Snapshot* past =
      Before(static_cast<int64_t>((1 - constants_.growth_share) * static_cast<double>(step)), kWindowSamples);
  if (!past) past = &history_.front();
  if (past->step > start->step) past = start;
  const auto median_of = [&](auto value) {
    scratch_.clear();
    for (size_t head = 0; head < logs.size(); ++head) {
      if (std::isfinite(value(head))) scratch_.push_back(value(head));
    }
    return MedianInPlace(scratch_);
  };
  const auto growth = [&](size_t head) { return logs[head] - past->logs[head]; };
  median_log_ = median_of([&](size_t head) { return logs[head]; });
  const double median_growth = relative ? median_of(growth) : 0;
  ready_ = true;
  const double youth = std::min(1.0, windows / constants_.grown_up_windows);
  // The more heads, the further the largest of them stands out by chance: as the largest of n normal values
  // does.
  const double z_scale =
      kScales.z *
      std::sqrt(std::log(std::max<double>(static_cast<double>(between.count), 4)) / std::log(16.0));
  for (size_t head = 0; head < logs.size(); ++head) {
    if (!std::isfinite(slopes_[head])) continue;
    Features& f = features_[head];
    f.slope = slopes_[head];
    f.rate = f.slope * log_age / static_cast<double>(step - start->step);
    f.z = (f.slope - (relative ? between.median : 0)) / usual;
    f.growth = growth(head) - median_growth;
    f.level = relative ? logs[head] - median_log_ : f.growth;
    const double product = youth * Positive(f.slope) / kScales.slope * Positive(f.z) / z_scale *
                           Positive(f.level) / kScales.level * Positive(f.growth) / kScales.growth;
    f.score = std::sqrt(std::sqrt(product));
  }
}

void GrowthTracker::Trim(int64_t step) {
  const auto oldest = static_cast<int64_t>((1 - constants_.growth_share) * static_cast<double>(step));
  while (history_.size() > 2 * kWindowSamples && history_[1].step <= std::min(oldest, window_start_)) {
    history_.pop_front();
  }
}

}  // namespace foreshock::detect
