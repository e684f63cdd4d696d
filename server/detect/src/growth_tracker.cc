#include "growth_tracker.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "robust.h"

namespace foreshock::detect {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr GrowthTracker::Scales kScales;

// The finite of `values`, in `kept`'s memory.
std::span<double> KeepFinite(std::span<const double> values, std::vector<double>* kept) {
  kept->resize(values.size());
  size_t count = 0;
  for (const double value : values) {
    (*kept)[count] = value;
    count += std::isfinite(value) ? 1 : 0;
  }
  return {kept->data(), count};
}

}  // namespace

void GrowthTracker::Clear() {
  history_.clear();
  spreads_.clear();
  std::fill(scores_.begin(), scores_.end(), 0.0);
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
  std::fill(scores_.begin(), scores_.end(), 0.0);
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
  window_steps_ = static_cast<double>(step - start->step);
  log_age_ = std::log(static_cast<double>(step) / std::max<double>(static_cast<double>(start->step), 20));

  slopes_.resize(logs.size());
  for (size_t head = 0; head < logs.size(); ++head)
    slopes_[head] = (logs[head] - start->logs[head]) / log_age_;
  const std::span<double> finite = KeepFinite(slopes_, &scratch_);
  relative_ = finite.size() >= kMinHeads;
  const Baseline between = RobustBaseline(finite, &mad_scratch_);
  if (between.count == 0) return;
  const double usual = UsualSpread(start->step);
  if (history_.back().step == step) {
    spreads_.push_back({step, relative_ ? between.scale : std::abs(between.median)});
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
  logs_.assign(logs.begin(), logs.end());
  median_log_ = MedianInPlace(KeepFinite(logs, &scratch_));
  growths_.resize(logs.size());
  for (size_t head = 0; head < logs.size(); ++head) growths_[head] = logs[head] - past->logs[head];
  median_growth_ = relative_ ? MedianInPlace(KeepFinite(growths_, &scratch_)) : 0;
  median_slope_ = relative_ ? between.median : 0;
  usual_spread_ = usual;
  ready_ = true;
  Score(std::min(1.0, windows / constants_.grown_up_windows), between.count);
}

void GrowthTracker::Score(double youth, size_t measured) {
  // The more heads, the further the largest of them stands out by chance: as the largest of n normal values
  // does.
  const double z_scale =
      kScales.z * std::sqrt(std::log(std::max<double>(static_cast<double>(measured), 4)) / std::log(16.0));
  // First who rises, without branches that nobody can foresee, then how much.
  rising_.resize(slopes_.size());
  size_t count = 0;
  for (size_t head = 0; head < slopes_.size(); ++head) {
    rising_[count] = static_cast<uint32_t>(head);
    count += static_cast<size_t>(slopes_[head] > 0) & static_cast<size_t>(slopes_[head] > median_slope_) &
             static_cast<size_t>(Level(head) > 0) & static_cast<size_t>(Growth(head) > 0) &
             static_cast<size_t>(std::isfinite(slopes_[head]));
  }
  for (const uint32_t head : std::span(rising_).first(count)) {
    const double product = youth * slopes_[head] / kScales.slope * Z(head) / z_scale * Level(head) /
                           kScales.level * Growth(head) / kScales.growth;
    scores_[head] = std::sqrt(std::sqrt(product));
  }
}

GrowthTracker::Features GrowthTracker::Of(size_t head) const {
  Features f;
  if (!ready_ || !std::isfinite(slopes_[head])) return f;
  f.slope = slopes_[head];
  f.rate = f.slope * log_age_ / window_steps_;
  f.z = Z(head);
  f.growth = Growth(head);
  f.level = Level(head);
  f.score = scores_[head];
  return f;
}

void GrowthTracker::Trim(int64_t step) {
  const auto oldest = static_cast<int64_t>((1 - constants_.growth_share) * static_cast<double>(step));
  while (history_.size() > 2 * kWindowSamples && history_[1].step <= std::min(oldest, window_start_)) {
    history_.pop_front();
  }
}

}  // namespace foreshock::detect
