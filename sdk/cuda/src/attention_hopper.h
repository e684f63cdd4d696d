// The attention probe's kernel for sm_90a: 16-bit inputs, head sizes up to 128, causality and windows but no
// other masks. CUDA sources only.
#pragma once

#include <cuda_runtime_api.h>

#include "attention_walk.cuh"

namespace foreshock::cuda {

struct WarpPartial;

inline constexpr int kHopperRows = 192;  // a tile's
inline constexpr int kHopperWarps = 12;

// Whether the kernel can take this problem on the current device.
bool HopperTakes(const AttentionProblem& problem);

// Writes every partial of the list. Returns a cudaError_t.
int LaunchHopper(const AttentionProblem& problem, const TileList& list, const uint32_t* enabled,
                 WarpPartial* partials, cudaStream_t stream);

}  // namespace foreshock::cuda
