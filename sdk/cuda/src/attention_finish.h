// The small kernels before and after the attention probe's main one. CUDA sources only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "attention_walk.cuh"
#include "foreshock/sdk/attention_probe.h"

namespace foreshock::cuda {

struct WarpPartial;

// Writes a packed problem's tile prefix: list.sampled_sequences + 2 entries.
int LaunchPlanTiles(const AttentionProblem& problem, const TileList& list, const uint32_t* enabled,
                    int32_t* prefix, cudaStream_t stream);

// What the row kernels of one call leave to be added up.
struct HeadsToFinish {
  TileList list;
  const WarpPartial* partials;
  const uint32_t* enabled;
  kernels::AttentionHeadStats* heads;
};

// Adds up the partials of every head of a call whose row kernel is the last thing on the stream: launched
// early. Returns a cudaError_t.
int LaunchFinishHeads(const HeadsToFinish& call, cudaStream_t stream);

// The same of `count` calls, by one kernel for every 16. Returns a cudaError_t.
int LaunchFinishHeads(const HeadsToFinish* calls, size_t count, cudaStream_t stream);

}  // namespace foreshock::cuda
