#include "series_view.h"

#include <algorithm>

namespace foreshock::store {
namespace {

template <typename T>
void Pick(const std::vector<T>& from, const std::vector<size_t>& indices, size_t per_entry,
          std::vector<T>* to) {
  for (const size_t i : indices) {
    to->insert(to->end(), from.begin() + static_cast<ptrdiff_t>(i * per_entry),
               from.begin() + static_cast<ptrdiff_t>((i + 1) * per_entry));
  }
}

wire::Series PickHeads(const wire::Series& series, const std::vector<size_t>& indices) {
  wire::Series out;
  out.signal = series.signal;
  out.layer = series.layer;
  out.values_per_head = series.values_per_head;
  out.flags = series.flags;
  out.step_offsets = series.step_offsets;
  Pick(series.heads, indices, 1, &out.heads);
  Pick(series.values, indices, series.values_per_head, &out.values);
  if (!series.present.empty()) Pick(series.present, indices, 1, &out.present);
  if (series.weights.size() == 1) out.weights = series.weights;
  if (series.weights.size() > 1) Pick(series.weights, indices, 1, &out.weights);
  if (!series.moments.empty()) Pick(series.moments, indices, wire::kMomentsPerHead, &out.moments);
  if (!series.direction_hash.empty()) Pick(series.direction_hash, indices, 1, &out.direction_hash);
  if (!series.rotated.empty()) Pick(series.rotated, indices, 1, &out.rotated);
  return out;
}

}  // namespace

std::vector<SeriesPoint> PointsOf(const wire::Frame& frame, const SeriesQuery& query) {
  std::vector<SeriesPoint> points;
  for (const wire::Series& series : frame.series) {
    if (series.signal != query.signal) continue;
    if (query.layer && series.layer != query.layer) continue;
    if (query.heads.empty()) {
      points.push_back({frame.step, series});
      continue;
    }
    std::vector<size_t> indices;
    for (const uint32_t head : query.heads) {
      const auto it = std::find(series.heads.begin(), series.heads.end(), head);
      if (it != series.heads.end()) indices.push_back(static_cast<size_t>(it - series.heads.begin()));
    }
    if (!indices.empty()) points.push_back({frame.step, PickHeads(series, indices)});
  }
  return points;
}

void KeepSignals(const std::vector<uint16_t>& signals, wire::Frame* frame) {
  if (signals.empty()) return;
  std::erase_if(frame->series, [&](const wire::Series& series) {
    return std::find(signals.begin(), signals.end(), series.signal) == signals.end();
  });
}

std::vector<size_t> Thinned(size_t count, size_t limit) {
  std::vector<size_t> indices;
  // One place is kept for the last one.
  const size_t regular = std::max<size_t>(limit, 2) - 1;
  const size_t stride = count <= limit ? 1 : (count + regular - 1) / regular;
  for (size_t i = 0; i < count; i += stride) indices.push_back(i);
  if (indices.empty() || count == 0) return indices;
  if (limit == 1) return {count - 1};
  if (indices.back() != count - 1) indices.push_back(count - 1);
  return indices;
}

}  // namespace foreshock::store
