// The attention probe's launcher: checks, the choice between the Hopper kernel (attention_hopper.h) and the
// portable one (attention_portable.h), then the kernel that adds up (attention_finish.h), all on the caller's
// stream. Nothing here waits, and nothing is allocated: the workspace is the caller's.

// nvcc takes an assignment in base/result.h for an ignored value.
#pragma nv_diag_suppress 2810
#include "foreshock/sdk/cuda/attention_probe.h"
#pragma nv_diag_default 2810

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "attention_finish.h"
#include "attention_hopper.h"
#include "attention_partial.cuh"
#include "attention_portable.h"
#include "attention_tiles.h"
#include "foreshock/sdk/attention_checks.h"

namespace foreshock::cuda {
namespace {

using kernels::KernelStatus;

static_assert(sizeof(HeadsToFinish) <= sizeof(AttentionToFinish) &&
              std::is_trivially_copyable_v<HeadsToFinish>);

size_t PartialBytes(const TileList& list) {
  return static_cast<size_t>(list.PartialsPerHead()) * sizeof(WarpPartial);
}

}  // namespace

size_t AttentionProbeWorkspaceBytes(const AttentionProblem& problem) noexcept {
  AttentionProblem shape = problem;
  if (kernels::CheckAttentionArguments(shape) != KernelStatus::kOk || TooLong(shape)) return 0;
  // Whichever kernel runs and whatever the offset.
  shape.sampling.sequence_offset = 0;
  const TileList portable = MakeTiles(shape, kPortableRows, kPortableWarps);
  const TileList hopper = MakeTiles(shape, kHopperRows, kHopperWarps);
  return std::max(LayOut(portable, PartialBytes(portable)).end, LayOut(hopper, PartialBytes(hopper)).end) +
         kWorkspaceAlignment;
}

LaunchStatus LaunchAttentionScores(const AttentionProblem& p, const uint32_t* enabled,
                                   kernels::AttentionHeadStats* heads, kernels::Workspace workspace,
                                   Stream stream, AttentionToFinish* rest) noexcept {
  const KernelStatus status = kernels::CheckAttentionArguments(p);
  if (status != KernelStatus::kOk) return {status, 0};
  if (TooLong(p)) return {KernelStatus::kBadShape, 0};
  if (heads == nullptr) return {KernelStatus::kNullPointer, 0};
  const bool hopper = HopperTakes(p);
  TileList list =
      hopper ? MakeTiles(p, kHopperRows, kHopperWarps) : MakeTiles(p, kPortableRows, kPortableWarps);
  if (list.Items() > kMostItems) return {KernelStatus::kBadShape, 0};
  const WorkspaceLayout at = LayOut(list, PartialBytes(list));
  unsigned char* base = AlignedBase(workspace, at);
  if (base == nullptr) return {KernelStatus::kWorkspaceTooSmall, 0};
  auto* partials = reinterpret_cast<WarpPartial*>(base + at.records);
  const auto on = static_cast<cudaStream_t>(stream);

  if (p.cu_seqlens_q != nullptr) {
    auto* prefix = reinterpret_cast<int32_t*>(base);
    list.prefix = prefix;
    const int error = LaunchPlanTiles(p, list, enabled, prefix, on);
    if (error != cudaSuccess) return {KernelStatus::kOk, error};
  }
  const int error =
      hopper ? LaunchHopper(p, list, enabled, partials, on) : LaunchPortable(p, list, enabled, partials, on);
  const HeadsToFinish left{list, partials, enabled, heads};
  std::memcpy(rest->kept, &left, sizeof left);
  return {KernelStatus::kOk, error};
}

int LaunchAttentionFinish(const AttentionToFinish* calls, size_t count, Stream stream) noexcept {
  constexpr size_t kMost = 16;
  HeadsToFinish left[kMost];
  for (size_t first = 0; first < count; first += kMost) {
    const size_t here = std::min(kMost, count - first);
    for (size_t i = 0; i < here; ++i) std::memcpy(left + i, calls[first + i].kept, sizeof(HeadsToFinish));
    const int error = LaunchFinishHeads(left, here, static_cast<cudaStream_t>(stream));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

LaunchStatus LaunchAttentionProbe(const AttentionProblem& p, const uint32_t* enabled,
                                  kernels::AttentionHeadStats* heads, kernels::Workspace workspace,
                                  Stream stream) noexcept {
  AttentionToFinish rest;
  LaunchStatus launched = LaunchAttentionScores(p, enabled, heads, workspace, stream, &rest);
  if (!launched.ok()) return launched;
  HeadsToFinish left;
  std::memcpy(&left, rest.kept, sizeof left);
  launched.cuda_error = LaunchFinishHeads(left, static_cast<cudaStream_t>(stream));
  return launched;
}

}  // namespace foreshock::cuda
