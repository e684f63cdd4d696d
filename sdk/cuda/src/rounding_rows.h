// What the rounding probe's two kernels hand over. CUDA sources only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "attention_walk.cuh"
#include "foreshock/sdk/rounding_probe.h"

namespace foreshock::cuda {

// One sampled row of one head, as kernels::RoundingRow.
struct RoundingRecord {
  double output_error;
  double output_ulp;
  double delta_output;
  double delta_exact;
  double delta_ref;
  double delta_error;
  float key_norm2;
  int32_t output_elements;
  bool counts;
  bool tied;
  bool redo;  // of a tile's first row: the tile is the plain kernel's to do
};

// Rows of a tile that the row kernel takes at once.
int RoundingTileRows(const kernels::RoundingProblem& problem);

// Writes every record of the list: [head][tile][row]. only_redo: those of tiles that are marked. Returns a
// cudaError_t.
int LaunchRoundingRows(const kernels::RoundingProblem& problem, const TileList& list, const uint32_t* enabled,
                       RoundingRecord* records, bool only_redo, cudaStream_t stream);

// The same on tensor cores, for bf16: marks what it leaves to LaunchRoundingRows. Tiles are of 32 rows.
bool RoundingMmaTakes(const kernels::RoundingProblem& problem);
int LaunchRoundingMma(const kernels::RoundingProblem& problem, const TileList& list, const uint32_t* enabled,
                      RoundingRecord* records, cudaStream_t stream);

// Adds up every head's records.
int LaunchRoundingHeads(const kernels::RoundingProblem& problem, const TileList& list,
                        const uint32_t* enabled, const RoundingRecord* records,
                        kernels::RoundingHeadStats* heads, cudaStream_t stream);

}  // namespace foreshock::cuda
