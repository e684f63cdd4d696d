#include "loss_story.h"

#include <algorithm>
#include <cmath>

namespace foreshock::report {
namespace {

constexpr double kWeight = 0.1;
constexpr double kRise = 0.5;
constexpr double kLearned = 1.0;

}  // namespace

LossStory TellLoss(const std::vector<Point>& loss, int64_t every_steps) {
  LossStory story;
  if (loss.empty()) return story;
  story.last = loss.back().value;
  std::optional<double> smoothed, first;
  std::optional<int64_t> above;  // since when
  for (const Point& point : loss) {
    if (point.step % every_steps != 0) continue;
    const bool finite = std::isfinite(point.value);
    if (finite) smoothed = smoothed ? *smoothed + kWeight * (point.value - *smoothed) : point.value;
    if (!smoothed) continue;
    if (!first) first = smoothed;
    if (!story.best || *smoothed < *story.best) story.best = smoothed;
    const bool bad = !finite || (*smoothed > *story.best + kRise && *story.best <= *first - kLearned);
    if (!bad) {
      above.reset();
    } else if (!above) {
      above = point.step;
    }
  }
  story.smoothed = smoothed;
  story.collapse_step = above;
  return story;
}

std::vector<Point> Thin(const std::vector<Point>& points, size_t most) {
  if (points.size() <= most || most < 8) return points;
  const size_t buckets = most / 4;
  std::vector<Point> thin;
  for (size_t b = 0; b < buckets; ++b) {
    const size_t begin = points.size() * b / buckets, end = points.size() * (b + 1) / buckets;
    size_t low = begin, high = begin;
    for (size_t i = begin; i < end; ++i) {
      if (std::isnan(points[i].value) || points[i].value < points[low].value) low = i;
      if (std::isnan(points[i].value) || points[i].value > points[high].value) high = i;
    }
    std::vector<size_t> keep = {begin, low, high, end - 1};
    std::sort(keep.begin(), keep.end());
    keep.erase(std::unique(keep.begin(), keep.end()), keep.end());
    for (const size_t i : keep) thin.push_back(points[i]);
  }
  return thin;
}

}  // namespace foreshock::report
