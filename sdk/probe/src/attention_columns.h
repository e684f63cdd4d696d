// Attention statistics of one layer into a frame's columns, whichever backend measured them.
#pragma once

#include <cstdint>

#include "foreshock/sdk/attention_probe.h"
#include "foreshock/sdk/frame_layout.h"
#include "foreshock/sdk/rounding_probe.h"

namespace foreshock::sdk {

// Heads without rows stay missing. `learned_sinks`: the call had some.
void WriteAttention(const FrameLayout& layout, FrameSlot* slot, int32_t layer,
                    const kernels::AttentionHeadStats* heads, uint32_t count, bool learned_sinks) noexcept;

// What the call gave: nothing is written of gradients that it did not have.
struct RoundingGiven {
  bool d_o = false;
  bool dq = false;
};
void WriteRounding(const FrameLayout& layout, FrameSlot* slot, int32_t layer,
                   const kernels::RoundingHeadStats* heads, uint32_t count, RoundingGiven given) noexcept;

}  // namespace foreshock::sdk
