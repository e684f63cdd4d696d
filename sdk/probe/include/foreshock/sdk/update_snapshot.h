// What one optimizer step did to W_Q and to W_Q W_K^T (update_norm, qk_update_entropy, qk_update_participation),
// from a copy of the weights before the step. Off unless the trainer gives it memory.
//
//   Take()         weights are W_t: copies as many layers as fit into the memory, the next ones each time
//   Report(slot)   weights are W_{t+1}: writes their signals into the slot of step t
//   Drop()         the copy means nothing (the step was skipped, the weights were replaced)
//
// One thread at a time. After the constructor nothing allocates. Host memory only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "foreshock/sdk/frame_layout.h"
#include "foreshock/sdk/layer_spec.h"
#include "foreshock/sdk/weight_probe.h"

namespace foreshock::sdk {

class UpdateSnapshot {
 public:
  // Copy `replica` of `replicas` measures the query heads h with h % replicas == replica. `layers`, whose
  // pointers to weights may change between steps, and `layout` must outlive this.
  UpdateSnapshot(const std::vector<LayerSpec>& layers, const FrameLayout& layout, uint32_t replica,
                 uint32_t replicas, uint64_t limit_bytes);

  // Memory that one layer's copy needs; 0 for a layer that cannot be measured (no W_Q or no W_K).
  static uint64_t BytesOf(const LayerSpec& layer, uint32_t replica, uint32_t replicas);

  void Take() noexcept;
  void Report(FrameSlot* slot) noexcept;
  void Drop() noexcept { taken_ = 0; }

 private:
  struct Layer {
    const LayerSpec* spec;
    int32_t index;
    uint64_t bytes;
    std::vector<uint32_t> q_heads;  // local
    std::vector<uint32_t> k_heads;  // local: those that the query heads use
    std::vector<uint32_t> k_of_q;   // index into k_heads, one a query head
  };
  void ReportLayer(const Layer& layer, const unsigned char* copy, FrameSlot* slot) noexcept;

  const FrameLayout& layout_;
  std::vector<Layer> layers_;  // that can be measured and fit
  std::vector<unsigned char> copies_;
  std::vector<unsigned char> change_q_, change_k_, workspace_;
  size_t next_ = 0;   // the first layer of the next copy
  size_t first_ = 0;  // of the present one, and how many
  size_t taken_ = 0;
};

}  // namespace foreshock::sdk
