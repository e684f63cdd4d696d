#include "foreshock/sdk/frame_layout.h"

#include <algorithm>

namespace foreshock::sdk {
namespace {

constexpr size_t kMaxSignal = 256;
// Series.flags of the wire; repeated here because the probe does not know the wire.
constexpr uint32_t kLowResolution = 1;
constexpr uint32_t kNotCausal = 2;

bool IsUpdate(uint16_t id) { return id >= kUpdateProjection1 && id <= kQkUpdateParticipation; }
bool IsProjection(uint16_t id) { return id >= kUpdateProjection1 && id <= kWkUpdateProjection3; }
bool IsWeightNorm(uint16_t id) { return id >= kWqSigma1 && id <= kQkSigma1; }
bool IsKeySide(const SignalInfo& info) { return info.scope == SignalScope::kKvHead; }
bool HasWeight(const SignalInfo& info) {
  return info.merge == SignalMerge::kRatio || info.merge == SignalMerge::kMax ||
         info.merge == SignalMerge::kMin || info.merge == SignalMerge::kWeightedMean ||
         (info.merge == SignalMerge::kSum && IsUpdate(info.id));
}
bool HasMoments(uint16_t id) {
  return id == kOutputRoundingBias || id == kOutputRoundingBiasTied || id == kOutputRoundingBiasOther ||
         id == kDeltaOutputBias || id == kDeltaError;
}

bool Measurable(const SignalInfo& info, const LayerSpec& layer, bool snapshots) {
  if (info.id == kUpdateNorm || info.id == kQkUpdateEntropy || info.id == kQkUpdateParticipation) {
    return snapshots && layer.wq && layer.wk && !layer.wq->shard;
  }
  if (info.id == kQkSigma1) return layer.wq && layer.wk;
  // Of a shard the server takes signs, once it has added all parts.
  const auto& side = IsKeySide(info) ? layer.wk : layer.wq;
  if (IsUpdate(info.id) && !IsProjection(info.id) && side && side->shard) return false;
  if (IsWeightNorm(info.id) || IsUpdate(info.id))
    return IsKeySide(info) ? layer.wk.has_value() : layer.wq.has_value();
  return true;
}

uint32_t FixedFlags(const SignalInfo& info, const LayerSpec& layer) {
  uint32_t flags = 0;
  const auto& projection = IsKeySide(info) ? layer.wk : layer.wq;
  if (IsUpdate(info.id) && projection && projection->low_resolution()) flags |= kLowResolution;
  if ((IsUpdate(info.id) || IsWeightNorm(info.id)) && layer.qk_norm) flags |= kNotCausal;
  return flags;
}

}  // namespace

FrameLayout::FrameLayout(const std::vector<LayerSpec>& layers, bool snapshots, uint32_t partial_room)
    : partial_room_(partial_room), index_((layers.size() + 1) * kMaxSignal, -1) {
  for (const SignalInfo& info : SignalCatalogue()) {
    if (info.scope == SignalScope::kScalar) Add(info, -1, nullptr);
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    for (const SignalInfo& info : SignalCatalogue()) {
      if (info.scope == SignalScope::kScalar || !Measurable(info, layers[i], snapshots)) continue;
      Add(info, static_cast<int32_t>(i), &layers[i]);
    }
  }
}

void FrameLayout::Add(const SignalInfo& info, int32_t layer_index, const LayerSpec* layer) {
  Column column;
  column.signal = info.id;
  column.layer_index = layer_index;
  if (layer != nullptr) {
    const bool key_side = IsKeySide(info);
    column.layer = layer->layer;
    column.first_head = key_side ? layer->first_kv_head : layer->first_query_head;
    column.count = key_side ? layer->local_kv_heads : layer->local_query_heads;
    column.flags = FixedFlags(info, *layer);
  }
  if (layer != nullptr && IsProjection(info.id)) {
    const auto& shard = (IsKeySide(info) ? layer->wk : layer->wq)->shard;
    if (shard) {
      column.room = partial_room_;
      column.shard = shard->index;
      column.shards = shard->count;
      column.part = static_cast<int32_t>(partials_.size());
      partials_.push_back(column.count);
    }
  }
  column.value_at = static_cast<uint32_t>(value_count_);
  value_count_ += size_t{column.count} * column.room;
  if (HasWeight(info) && !(layer == nullptr && info.merge == SignalMerge::kMax)) {
    column.weight_at = static_cast<int32_t>(value_count_);
    value_count_ += column.count;
  }
  if (HasMoments(info.id)) {
    column.moment_at = static_cast<int32_t>(value_count_);
    value_count_ += size_t{4} * column.count;
  }
  column.head_at = static_cast<uint32_t>(head_count_);
  head_count_ += column.count;
  index_[static_cast<size_t>(layer_index + 1) * kMaxSignal + info.id] = static_cast<int32_t>(columns_.size());
  columns_.push_back(column);
}

int32_t FrameLayout::Find(int32_t layer_index, uint16_t signal) const noexcept {
  if (signal >= kMaxSignal || layer_index < -1) return -1;
  const size_t at = static_cast<size_t>(layer_index + 1) * kMaxSignal + signal;
  return at < index_.size() ? index_[at] : -1;
}

size_t FrameLayout::SlotBytes() const {
  size_t partial_bytes = 0;
  for (const uint32_t heads : partials_) partial_bytes += sizeof(PartialSlot) + 4 * partial_room_ + 8 * heads;
  return sizeof(FrameSlot) + value_count_ * sizeof(float) + 2 * head_count_ + 2 * columns_.size() +
         partial_bytes;
}

void FrameSlot::Shape(const FrameLayout& layout) {
  const auto& columns = layout.columns();
  scalar_columns = static_cast<size_t>(std::count_if(
      columns.begin(), columns.end(), [](const Column& column) { return column.layer_index < 0; }));
  values.assign(layout.value_count(), 0.0f);
  present.assign(layout.head_count(), 0);
  rotated.assign(layout.head_count(), 0);
  used.assign(layout.columns().size(), 0);
  flags.assign(layout.columns().size(), 0);
  partials.clear();
  for (const uint32_t heads : layout.partials()) {
    partials.push_back({0, std::vector<uint32_t>(layout.partial_room(), 0), std::vector<uint64_t>(heads, 0)});
  }
}

void FrameSlot::Clear() noexcept {
  step = time_unix_ns = window_from = 0;
  skipped = sampled = false;
  weights_ticket = attention_ticket = scalars_ticket = -1;
  device_nanos = 0;
  // Most steps carry scalars alone: values and flags of unused columns are never read, so they may stay.
  const size_t columns = has_heads ? used.size() : scalar_columns;
  std::fill_n(used.begin(), columns, uint8_t{0});
  std::fill_n(flags.begin(), columns, uint8_t{0});
  std::fill_n(present.begin(), has_heads ? present.size() : scalar_columns, uint8_t{0});
  if (has_heads) {
    std::fill(values.begin(), values.end(), 0.0f);
    std::fill(rotated.begin(), rotated.end(), uint8_t{0});
    for (PartialSlot& partial : partials) partial.n = 0;
  }
  has_heads = false;
}

ColumnWriter::ColumnWriter(const FrameLayout& layout, FrameSlot* slot, int32_t layer_index,
                           uint16_t signal) noexcept
    : slot_(slot) {
  const int32_t at = layout.Find(layer_index, signal);
  if (at < 0) return;
  index_ = static_cast<size_t>(at);
  column_ = &layout.columns()[index_];
  slot_->used[index_] = 1;
  if (layer_index >= 0) slot_->has_heads = true;
}

void ColumnWriter::SetPartial(uint32_t head, const double* values, uint32_t n) noexcept {
  if (column_ == nullptr || n > column_->room) return;
  float* at = slot_->values.data() + column_->value_at + size_t{head} * column_->room;
  for (uint32_t i = 0; i < n; ++i) at[i] = static_cast<float>(values[i]);
  slot_->present[column_->head_at + head] = 1;
  if (column_->weight_at >= 0) {
    slot_->values[static_cast<size_t>(column_->weight_at) + head] = static_cast<float>(n);
  }
}

void ColumnWriter::SetMoments(uint32_t head, double rows, double num_num, double num_den,
                              double den_den) noexcept {
  if (column_ == nullptr || column_->moment_at < 0) return;
  float* at = slot_->values.data() + column_->moment_at + size_t{4} * head;
  at[0] = static_cast<float>(rows);
  at[1] = static_cast<float>(num_num);
  at[2] = static_cast<float>(num_den);
  at[3] = static_cast<float>(den_den);
}

}  // namespace foreshock::sdk
