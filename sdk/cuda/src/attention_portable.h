// The attention probe's kernel for every architecture, dtype, layout, head size and mask. CUDA sources only.
#pragma once

#include <cuda_runtime_api.h>

#include "attention_walk.cuh"

namespace foreshock::cuda {

struct WarpPartial;

inline constexpr int kPortableRows = 64;  // a tile's
inline constexpr int kPortableWarps = 4;

// Writes every partial of the list. Returns a cudaError_t.
int LaunchPortable(const AttentionProblem& problem, const TileList& list, const uint32_t* enabled,
                   WarpPartial* partials, cudaStream_t stream);

}  // namespace foreshock::cuda
