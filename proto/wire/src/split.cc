#include <algorithm>

#include "foreshock/wire/codec.h"

namespace foreshock::wire {
namespace {

// An upper bound of a series' encoded size, cheap to compute.
size_t SeriesBytes(const Series& series) {
  const size_t heads = series.heads.size();
  return 64 + 5 * heads + series.present.size() / 4 + 4 * (series.values.size() + series.weights.size()) +
         4 * series.moments.size() + 8 * series.direction_hash.size() + 5 * series.step_offsets.size();
}

}  // namespace

Frame WithoutSeries(const Frame& frame) {
  // Named one by one, so that a field which joins them cannot be forgotten.
  const auto& [seq, step, time_unix_ns, dropped_before, skipped, part, parts, window_from, series] = frame;
  return {seq, step, time_unix_ns, dropped_before, skipped, part, parts, window_from, {}};
}

std::vector<Frame> SplitFrame(Frame frame, size_t max_bytes) {
  constexpr size_t kHeadBytes = 96;
  std::vector<Frame> parts;
  size_t bytes = kHeadBytes;
  const Frame head = WithoutSeries(frame);
  parts.push_back(head);
  for (Series& series : frame.series) {
    const size_t size = SeriesBytes(series);
    if (!parts.back().series.empty() && bytes + size > max_bytes) {
      parts.push_back(head);
      bytes = kHeadBytes;
    }
    bytes += size;
    parts.back().series.push_back(std::move(series));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].seq = frame.seq + i;
    parts[i].part = static_cast<uint32_t>(i);
    parts[i].parts = static_cast<uint32_t>(parts.size());
    if (i > 0) parts[i].dropped_before = 0;
  }
  return parts;
}

const Series* Frame::Find(uint16_t signal, std::optional<uint32_t> layer) const {
  const auto it = std::find_if(series.begin(), series.end(), [&](const Series& candidate) {
    return candidate.signal == signal && candidate.layer == layer;
  });
  return it == series.end() ? nullptr : &*it;
}

}  // namespace foreshock::wire
