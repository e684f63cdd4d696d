#include "foreshock/sdk/frame_encoder.h"

#include <algorithm>

namespace foreshock::sdk {
namespace {

// Room for many steps a head becomes the n that there are.
void AddPartials(const Column& column, const FrameSlot& slot, wire::Series* series) {
  const PartialSlot& partial = slot.partials[static_cast<size_t>(column.part)];
  const uint32_t n = std::max(partial.n, 1u);
  std::vector<float> values;
  for (uint32_t h = 0; h < column.count; ++h) {
    const auto from = slot.values.begin() + static_cast<ptrdiff_t>(column.value_at + size_t{h} * column.room);
    values.insert(values.end(), from, from + n);
  }
  series->values = std::move(values);
  series->values_per_head = n;
  series->flags |= wire::kPartial;
  series->shard = column.shard;
  series->shards = column.shards;
  series->direction_hash = partial.hashes;
  // Steps without a hole up to the frame's own need no list.
  const auto offsets = partial.step_offsets.begin();
  bool whole = true;
  for (uint32_t k = 0; k < partial.n; ++k) whole = whole && offsets[k] == partial.n - 1 - k;
  if (!whole) series->step_offsets.assign(offsets, offsets + partial.n);
}

wire::Series ToSeries(const Column& column, const FrameSlot& slot, uint8_t extra_flags) {
  wire::Series series;
  series.signal = column.signal;
  const auto take = [&](size_t at, size_t count) {
    const auto from = slot.values.begin() + static_cast<ptrdiff_t>(at);
    return std::vector<float>(from, from + static_cast<ptrdiff_t>(count));
  };
  const auto bits = [&](const std::vector<uint8_t>& bytes) {
    const auto from = bytes.begin() + static_cast<ptrdiff_t>(column.head_at);
    return std::vector<uint8_t>(from, from + column.count);
  };
  series.values = take(column.value_at, column.count);
  if (column.weight_at >= 0) series.weights = take(static_cast<size_t>(column.weight_at), column.count);
  if (column.layer_index < 0) return series;

  series.layer = column.layer;
  for (uint32_t h = 0; h < column.count; ++h) series.heads.push_back(column.first_head + h);
  series.present = bits(slot.present);
  if (std::all_of(series.present.begin(), series.present.end(), [](uint8_t bit) { return bit != 0; })) {
    series.present.clear();
  }
  if (column.moment_at >= 0) {
    series.moments = take(static_cast<size_t>(column.moment_at), wire::kMomentsPerHead * column.count);
  }
  auto rotated = bits(slot.rotated);
  if (std::any_of(rotated.begin(), rotated.end(), [](uint8_t bit) { return bit != 0; })) {
    series.rotated = std::move(rotated);
  }
  series.flags = column.flags | extra_flags;
  if (column.part >= 0) AddPartials(column, slot, &series);
  return series;
}

}  // namespace

wire::Frame ToFrame(const FrameLayout& layout, const FrameSlot& slot) {
  wire::Frame frame;
  frame.step = slot.step;
  frame.time_unix_ns = static_cast<uint64_t>(std::max<int64_t>(slot.time_unix_ns, 0));
  frame.skipped = slot.skipped;
  frame.window_from = slot.window_from;
  for (size_t i = 0; i < layout.columns().size(); ++i) {
    const Column& column = layout.columns()[i];
    if (!slot.used[i]) continue;
    if (column.layer_index < 0 && !slot.present[column.head_at]) continue;
    frame.series.push_back(ToSeries(column, slot, slot.flags[i]));
  }
  return frame;
}

wire::Event ToEvent(const EventSlot& slot) {
  wire::Event event;
  event.step = slot.step;
  event.time_unix_ns = static_cast<uint64_t>(std::max<int64_t>(slot.time_unix_ns, 0));
  event.kind = static_cast<wire::EventKind>(slot.kind);
  event.detail = slot.detail;
  event.layers.assign(slot.layers, slot.layers + slot.layer_count);
  event.action_id = slot.action_id;
  event.action = slot.action;
  event.action_state = static_cast<wire::ActionState>(slot.action_state);
  if (slot.has_logits) {
    event.logit_before = slot.logit_before;
    event.logit_after = slot.logit_after;
  }
  return event;
}

}  // namespace foreshock::sdk
