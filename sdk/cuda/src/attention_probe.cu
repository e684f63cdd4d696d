// nvcc takes an assignment in base/result.h for an ignored value.
#pragma nv_diag_suppress 2810
#include "foreshock/sdk/cuda/attention_probe.h"
#pragma nv_diag_default 2810

#include <cuda_runtime.h>

#include <algorithm>

#include "attention_finish.h"
#include "attention_hopper.h"
#include "attention_partial.cuh"
#include "attention_portable.h"
#include "foreshock/sdk/attention_checks.h"

namespace foreshock::cuda {
namespace {

using kernels::KernelStatus;

constexpr size_t kAlignment = 256;
constexpr int64_t kMostTokens = (int64_t{1} << 30) - 1;  // of one sequence: rows and keys are ints
constexpr int64_t kMostItems = (int64_t{1} << 31) - 1;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
size_t AlignUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

TileList MakeTiles(const AttentionProblem& p, int rows_per_tile, int warps_per_tile) {
  const kernels::RowSampling& s = p.sampling;
  const bool packed = p.cu_seqlens_q != nullptr;
  const int64_t sequences = packed ? p.n_sequences : p.q.batch;
  const int64_t offset = s.sequence_offset % s.sequence_every;
  TileList list;
  list.rows_per_tile = rows_per_tile;
  list.warps_per_tile = warps_per_tile;
  list.heads = static_cast<int>(p.q.heads);
  list.sampled_sequences =
      static_cast<int>(sequences > offset ? CeilDiv(sequences - offset, s.sequence_every) : 0);
  const int64_t most = int64_t{rows_per_tile} * s.row_every;
  if (packed) {
    // A sequence of n rows has at most n / most + 1 tiles, and none where it is empty.
    list.max_tiles = std::min(p.q.seq / most + list.sampled_sequences, p.q.seq);
  } else {
    list.tiles_per_sequence = static_cast<int>(CeilDiv(p.q.seq, most));
    list.max_tiles = int64_t{list.tiles_per_sequence} * list.sampled_sequences;
  }
  return list;
}

// The parts of the workspace.
struct Layout {
  size_t prefix = 0;
  size_t partials = 0;
  size_t end = 0;
};

Layout LayOut(const TileList& list) {
  Layout at;
  at.prefix = 0;
  at.partials = AlignUp((size_t{2} + static_cast<size_t>(list.sampled_sequences)) * sizeof(int32_t));
  at.end = at.partials + static_cast<size_t>(list.PartialsPerHead() * list.heads) * sizeof(WarpPartial);
  return at;
}

bool TooLong(const AttentionProblem& p) { return p.q.seq > kMostTokens || p.k.seq > kMostTokens; }

}  // namespace

size_t AttentionProbeWorkspaceBytes(const AttentionProblem& problem) noexcept {
  AttentionProblem shape = problem;
  if (kernels::CheckAttentionArguments(shape) != KernelStatus::kOk || TooLong(shape)) return 0;
  // Whichever kernel runs and whatever the offset.
  shape.sampling.sequence_offset = 0;
  return std::max(LayOut(MakeTiles(shape, kPortableRows, kPortableWarps)).end,
                  LayOut(MakeTiles(shape, kHopperRows, kHopperWarps)).end) +
         kAlignment;
}

LaunchStatus LaunchAttentionProbe(const AttentionProblem& p, const uint32_t* enabled,
                                  kernels::AttentionHeadStats* heads, kernels::Workspace workspace,
                                  Stream stream) noexcept {
  const KernelStatus status = kernels::CheckAttentionArguments(p);
  if (status != KernelStatus::kOk) return {status, 0};
  if (TooLong(p)) return {KernelStatus::kBadShape, 0};
  if (heads == nullptr) return {KernelStatus::kNullPointer, 0};
  const bool hopper = HopperTakes(p);
  TileList list =
      hopper ? MakeTiles(p, kHopperRows, kHopperWarps) : MakeTiles(p, kPortableRows, kPortableWarps);
  if (list.Items() > kMostItems) return {KernelStatus::kBadShape, 0};
  const Layout at = LayOut(list);
  const auto address = reinterpret_cast<uintptr_t>(workspace.data);
  const size_t skip = AlignUp(address) - address;
  if (workspace.data == nullptr || workspace.bytes < at.end + skip)
    return {KernelStatus::kWorkspaceTooSmall, 0};
  auto* base = static_cast<unsigned char*>(workspace.data) + skip;
  auto* partials = reinterpret_cast<WarpPartial*>(base + at.partials);
  const auto on = static_cast<cudaStream_t>(stream);

  if (p.cu_seqlens_q != nullptr) {
    auto* prefix = reinterpret_cast<int32_t*>(base + at.prefix);
    list.prefix = prefix;
    const int error = LaunchPlanTiles(p, list, enabled, prefix, on);
    if (error != cudaSuccess) return {KernelStatus::kOk, error};
  }
  int error =
      hopper ? LaunchHopper(p, list, enabled, partials, on) : LaunchPortable(p, list, enabled, partials, on);
  if (error == cudaSuccess) error = LaunchFinishHeads(list, partials, enabled, heads, on);
  return {KernelStatus::kOk, error};
}

}  // namespace foreshock::cuda
