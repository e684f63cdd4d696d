// QK-Guard for one process: decides, layer by layer, from which step on the trainer normalises q and k
// without parameters. It only decides; the trainer asks active(layer) and acts.
//
// Per step: BeginStep, then the step, then Observe with the finished frame. Decisions take effect at the next
// BeginStep, so that one step is never half normalised. One thread; after Prepare nothing allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/sdk/frame_layout.h"
#include "foreshock/sdk/saturation_trigger.h"

namespace foreshock::sdk {

inline constexpr double kSmallestBound = 4;  // scale * head_dim below which normalised logits cannot train

class Guard {
 public:
  explicit Guard(const std::vector<LayerSpec>& layers) : layers_(layers) {}

  // kUnimplemented: some layer's scale * head_dim is below kSmallestBound.
  Status Enable(bool automatic);
  bool enabled() const { return enabled_; }
  bool restored() const { return restored_; }

  void BeginStep() noexcept;
  bool active(size_t layer) const noexcept { return enabled_ && active_[layer] != 0; }
  uint32_t active_count() const noexcept;
  // True between Observe or Activate and BeginStep for layers that switch on next.
  bool pending(size_t layer) const noexcept { return enabled_ && wanted_[layer] != 0 && active_[layer] == 0; }

  // Switches on at the next BeginStep. False when it is on already, or the guard is not enabled.
  bool Activate(size_t layer) noexcept;
  // A finished frame that holds attention signals. Returns how many layers will switch on because of it.
  uint32_t Observe(const FrameLayout& layout, const FrameSlot& slot) noexcept;

  // What must survive a restart: which layers are on, and the baselines.
  std::string Save() const;
  // kInvalidArgument when the bytes are damaged or belong to another model.
  Status Restore(std::string_view state);

 private:
  size_t HeadIndex(size_t layer, uint32_t head) const { return first_head_[layer] + head; }

  const std::vector<LayerSpec>& layers_;
  bool enabled_ = false;
  bool automatic_ = false;
  bool restored_ = false;
  std::vector<uint8_t> active_, wanted_;
  std::vector<size_t> first_head_;
  std::vector<HeadReading> readings_;
  std::vector<uint8_t> triggered_;
  std::vector<SaturationTrigger> trigger_;  // one, once enabled
};

}  // namespace foreshock::sdk
