// nvcc takes an assignment in base/result.h for an ignored value.
#pragma nv_diag_suppress 2810
#include "foreshock/sdk/cuda/rounding_probe.h"
#pragma nv_diag_default 2810

#include <cuda_runtime.h>

#include "attention_finish.h"
#include "attention_tiles.h"
#include "foreshock/sdk/attention_checks.h"
#include "rounding_rows.h"

namespace foreshock::cuda {
namespace {

using kernels::KernelStatus;
using kernels::RoundingProblem;

bool TooWide(const RoundingProblem& p) {
  return p.attention.q.dim > kMaxRoundingDimOnDevice || p.v.dim > kMaxRoundingDimOnDevice;
}

TileList Tiles(const RoundingProblem& p) {
  TileList list = MakeTiles(p.attention, RoundingTileRows(p), 1);
  // Where blocks are few, all are dealt out from the longest to the shortest, or the last ones are long.
  constexpr int64_t kFewTiles = 4096;
  const int64_t pairs = int64_t{list.sampled_sequences} * list.heads;
  if (p.attention.cu_seqlens_q == nullptr && list.Items() <= kFewTiles) {
    list.pairs_at_once = static_cast<int>(pairs > 0 ? pairs : 1);
  }
  return list;
}

size_t RecordBytes(const TileList& list) {
  return static_cast<size_t>(list.max_tiles * list.rows_per_tile) * sizeof(RoundingRecord);
}

}  // namespace

size_t RoundingProbeWorkspaceBytes(const RoundingProblem& problem) noexcept {
  RoundingProblem shape = problem;
  if (kernels::CheckRoundingArguments(shape) != KernelStatus::kOk) return 0;
  if (TooLong(shape.attention) || TooWide(shape)) return 0;
  shape.attention.sampling.sequence_offset = 0;  // whatever the offset
  const TileList list = Tiles(shape);
  return LayOut(list, RecordBytes(list)).end + kWorkspaceAlignment;
}

LaunchStatus LaunchRoundingProbe(const RoundingProblem& p, const uint32_t* enabled,
                                 kernels::RoundingHeadStats* heads, kernels::Workspace workspace,
                                 Stream stream) noexcept {
  const KernelStatus status = kernels::CheckRoundingArguments(p);
  if (status != KernelStatus::kOk) return {status, 0};
  if (TooLong(p.attention) || TooWide(p)) return {KernelStatus::kBadShape, 0};
  if (heads == nullptr) return {KernelStatus::kNullPointer, 0};
  TileList list = Tiles(p);
  if (list.Items() > kMostItems) return {KernelStatus::kBadShape, 0};
  const WorkspaceLayout at = LayOut(list, RecordBytes(list));
  unsigned char* base = AlignedBase(workspace, at);
  if (base == nullptr) return {KernelStatus::kWorkspaceTooSmall, 0};
  auto* records = reinterpret_cast<RoundingRecord*>(base + at.records);
  const auto on = static_cast<cudaStream_t>(stream);

  if (p.attention.cu_seqlens_q != nullptr) {
    auto* prefix = reinterpret_cast<int32_t*>(base);
    list.prefix = prefix;
    const int error = LaunchPlanTiles(p.attention, list, enabled, prefix, on);
    if (error != cudaSuccess) return {KernelStatus::kOk, error};
  }
  const bool mma = RoundingMmaTakes(p);
  int error = mma ? LaunchRoundingMma(p, list, enabled, records, on) : cudaSuccess;
  if (error == cudaSuccess) error = LaunchRoundingRows(p, list, enabled, records, mma, on);
  if (error == cudaSuccess) error = LaunchRoundingHeads(p, list, enabled, records, heads, on);
  return {KernelStatus::kOk, error};
}

}  // namespace foreshock::cuda
