// One step's signals as flat arrays whose layout is fixed when the layers are known, so that a step fills
// memory that was there before and the background thread reads it without knowing the model.
//
// A column is one signal of one layer (or a scalar): `count` values, where the signal has them `count`
// weights and 4 * `count` moments, and a presence byte per head. Everything of a fresh slot is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "foreshock/base/catalogue.h"
#include "foreshock/sdk/layer_spec.h"

namespace foreshock::sdk {

struct Column {
  uint16_t signal = 0;
  int32_t layer_index = -1;  // into the layout's layers; -1: scalar
  uint32_t layer = 0;        // global index
  uint32_t first_head = 0;   // global index
  uint32_t count = 1;
  uint32_t flags = 0;      // wire flags that never change: low resolution, not causal
  uint32_t value_at = 0;   // into FrameSlot::values
  uint32_t head_at = 0;    // into FrameSlot::present and ::rotated
  int32_t weight_at = -1;  // into FrameSlot::values; -1: the signal carries no weight
  int32_t moment_at = -1;  // into FrameSlot::values, 4 per head: rows, num^2, num*den, den^2; -1: none
  // Partial values of a shard: room for `room` single steps a head, head after head, from value_at.
  uint32_t room = 1;
  int32_t part = -1;  // into FrameSlot::partials; -1: the column is not partial
  uint32_t shard = 0, shards = 0;
};

// What partial columns of one layer and side have in common.
struct PartialSlot {
  uint32_t n = 0;                      // single steps
  std::vector<uint32_t> step_offsets;  // of the first n: frame.step - t'
  std::vector<uint64_t> hashes;        // of the directions, a head
};

class FrameLayout {
 public:
  // `snapshots`: with the signals that need a copy of the weights (update_snapshot.h).
  // `partial_room`: single steps of a window that a sharded layer can send.
  explicit FrameLayout(const std::vector<LayerSpec>& layers, bool snapshots = false,
                       uint32_t partial_room = 64);

  const std::vector<Column>& columns() const { return columns_; }
  // Index of the column; -1 when this model has none.
  int32_t Find(int32_t layer_index, uint16_t signal) const noexcept;
  int32_t FindScalar(uint16_t signal) const noexcept { return Find(-1, signal); }

  // Heads of each entry of FrameSlot::partials.
  const std::vector<uint32_t>& partials() const { return partials_; }
  uint32_t partial_room() const { return partial_room_; }
  size_t value_count() const { return value_count_; }
  size_t head_count() const { return head_count_; }
  // Memory of one slot.
  size_t SlotBytes() const;

 private:
  void Add(const SignalInfo& info, int32_t layer_index, const LayerSpec* layer);

  const uint32_t partial_room_;
  std::vector<uint32_t> partials_;
  std::vector<Column> columns_;
  std::vector<int32_t> index_;  // (layer_index + 1) * kMaxSignal + signal -> column
  size_t value_count_ = 0;
  size_t head_count_ = 0;
};

struct FrameSlot {
  int64_t step = 0;
  int64_t time_unix_ns = 0;
  int64_t window_from = 0;
  bool skipped = false;
  bool has_heads = false;  // some column of a layer is used
  bool sampled = false;    // per-head signals were asked for
  // Results that a device still owes this frame; -1: none.
  int weights_ticket = -1, attention_ticket = -1;
  int scalars_ticket = -1;    // the same of numbers that lie on a device
  double device_nanos = 0;    // device time that the results so far took
  size_t scalar_columns = 0;  // they come first and hold one value each
  std::vector<float> values;
  std::vector<uint8_t> present;  // per head of every column
  std::vector<uint8_t> rotated;  // the same
  std::vector<uint8_t> used;     // per column: 0 is not sent at all
  std::vector<uint8_t> flags;    // per column: added to the column's own
  std::vector<PartialSlot> partials;

  // Sizes everything for `layout`. Allocates.
  void Shape(const FrameLayout& layout);
  // Forgets what an earlier step left.
  void Clear() noexcept;

  void Set(const Column& column, uint32_t head, double value) noexcept {
    values[column.value_at + head] = static_cast<float>(value);
    present[column.head_at + head] = 1;
  }
  void SetWeighted(const Column& column, uint32_t head, double value, double weight) noexcept {
    Set(column, head, value);
    if (column.weight_at >= 0)
      values[static_cast<size_t>(column.weight_at) + head] = static_cast<float>(weight);
  }
};

// Writes one signal of one layer into a slot: columns that the model lacks are skipped, the column counts as
// used from the moment the writer is made.
class ColumnWriter {
 public:
  ColumnWriter(const FrameLayout& layout, FrameSlot* slot, int32_t layer_index, uint16_t signal) noexcept;
  void Set(uint32_t head, double value) noexcept {
    if (column_ != nullptr) slot_->Set(*column_, head, value);
  }
  void Set(uint32_t head, double value, double weight) noexcept {
    if (column_ != nullptr) slot_->SetWeighted(*column_, head, value, weight);
  }
  void SetMoments(uint32_t head, double rows, double num_num, double num_den, double den_den) noexcept;
  void SetRotated(uint32_t head) noexcept {
    if (column_ != nullptr) slot_->rotated[column_->head_at + head] = 1;
  }
  // The n single steps of a partial column's head.
  void SetPartial(uint32_t head, const double* values, uint32_t n) noexcept;
  void AddFlags(uint32_t flags) noexcept {
    if (column_ != nullptr) slot_->flags[index_] |= static_cast<uint8_t>(flags);
  }

 private:
  const Column* column_ = nullptr;
  size_t index_ = 0;
  FrameSlot* slot_;
};

}  // namespace foreshock::sdk
