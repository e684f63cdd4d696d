// How the heads of a model are laid out over kernels and buffers. Plain C++, no device needed.
#pragma once

#include <cstdint>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/sdk/cuda/weight_probe.h"
#include "weight_launch.h"
#include "weight_tables.h"

namespace foreshock::cuda {

// Chunks [first, first + count) of one padded size, dtype and kernel: one launch.
struct GramGroup {
  int padded, dtype;
  GramKind kind;
  int first, count;
};
// Entries [first, first + count) of a list, of one padded size.
struct SizeGroup {
  int padded, first, count;
};

struct WeightPlan {
  std::vector<HeadRecord> heads;
  std::vector<RowChunk> gram_chunks, project_chunks;
  std::vector<GramGroup> gram_groups;
  std::vector<ProjectGroup> project_groups;
  std::vector<int32_t> head_list;
  std::vector<SizeGroup> head_groups, qk_groups;
  std::vector<QkRecord> qk;  // sorted by padded size
  int64_t gram_floats = 0, basis_floats = 0, u_floats = 0, v_floats = 0;
  int largest_padded = 32;
  int largest_head = 1;
};

// `multiprocessors` of the device: work is cut so that all have some. hopper: its kernels may be used.
Result<WeightPlan> PlanWeights(const std::vector<DeviceHead>& heads, const std::vector<QkPair>& pairs,
                               int multiprocessors, bool hopper);

// The parts of a record that depend on where the weights lie.
void PlaceHead(const kernels::WeightView& view, HeadRecord* record);

}  // namespace foreshock::cuda
