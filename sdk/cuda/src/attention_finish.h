// The small kernels before and after the attention probe's main one. CUDA sources only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention_walk.cuh"
#include "foreshock/sdk/attention_probe.h"

namespace foreshock::cuda {

struct WarpPartial;

// Writes a packed problem's tile prefix: list.sampled_sequences + 2 entries.
int LaunchPlanTiles(const AttentionProblem& problem, const TileList& list, const uint32_t* enabled,
                    int32_t* prefix, cudaStream_t stream);

// Adds up the partials of every head. Returns a cudaError_t.
int LaunchFinishHeads(const TileList& list, const WarpPartial* partials, const uint32_t* enabled,
                      kernels::AttentionHeadStats* heads, cudaStream_t stream);

}  // namespace foreshock::cuda
