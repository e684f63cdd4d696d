// How the spectra and windows of one layer's side are written into a frame, wherever they were measured.
#pragma once

#include <cstdint>

#include "foreshock/sdk/frame_layout.h"
#include "foreshock/sdk/update_accumulator.h"
#include "foreshock/sdk/weight_probe.h"
#include "foreshock/sdk/weight_tracker.h"

namespace foreshock::sdk {

// First signals of each kind; numbers 2 and 3 follow.
struct SideSignals {
  uint16_t sigma1, stable_rank, projection1, sign_mean1, drift_ratio1;
};
extern const SideSignals kQuerySide;
extern const SideSignals kKeySide;

void WriteSpectrum(const FrameLayout& layout, FrameSlot* slot, int32_t layer, const SideSignals& side,
                   uint32_t head, const kernels::HeadSpectrum& spectrum) noexcept;
void WriteUpdates(const FrameLayout& layout, FrameSlot* slot, int32_t layer, const SideSignals& side,
                  uint32_t head, const kernels::UpdateSums& sums) noexcept;
// A shard's window: every step's partial value, the steps, and the hash of the directions. Ends the window.
void WritePartials(const FrameLayout& layout, FrameSlot* slot, int32_t layer, const SideSignals& side,
                   ProjectionTracker& tracker) noexcept;

}  // namespace foreshock::sdk
