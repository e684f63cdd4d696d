// The attention probe on the GPU: the same statistics as kernels::ProbeAttention, in one pass over the keys,
// without keeping scores. Plain C++: no CUDA header is needed to call it.
//
// Scores are fp32: beside the accuracy that the signals promise, a score S that biases make large carries
// 2^-24 |S|. Results are bitwise equal from run to run on the same kind of device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "foreshock/sdk/attention_probe.h"
#include "foreshock/sdk/cuda/device.h"
#include "foreshock/sdk/kernel_status.h"

namespace foreshock::cuda {

// What a launch says. `status` speaks of the arguments, `cuda_error` (a cudaError_t) of CUDA's refusal.
struct [[nodiscard]] LaunchStatus {
  kernels::KernelStatus status = kernels::KernelStatus::kOk;
  int cuda_error = 0;
  bool ok() const { return status == kernels::KernelStatus::kOk && cuda_error == 0; }
};

// Bytes of device memory that LaunchAttentionProbe needs: depends on the shapes of q and k, on n_sequences
// and on row_every alone; 0 for shapes that it refuses.
size_t AttentionProbeWorkspaceBytes(const kernels::AttentionProblem& problem) noexcept;

// Enqueues the probe on `stream` of the current device: no synchronisation, no allocation, nothing thrown;
// may be captured into a graph. Every pointer of the problem (cu_seqlens, masks, slopes and sinks too), the
// workspace and `enabled` are device memory; `heads`, q_heads entries, is memory that the device can write:
// its own, or pinned host memory. They belong to the call until the stream has passed it.
//
// enabled: null, or one word; when it is 0 at the time the kernels run, they return at once and `heads` keeps
// what it held.
//
// cu_seqlens are not read here. Ones that fall, start below 0 or end past the tensor give every head rows 0
// and rows_visited NaN. Refuses (kBadShape) sequences of 2^30 tokens or more.
LaunchStatus LaunchAttentionProbe(const kernels::AttentionProblem& problem, const uint32_t* enabled,
                                  kernels::AttentionHeadStats* heads, kernels::Workspace workspace,
                                  Stream stream) noexcept;

// What LaunchAttentionScores leaves to be done. To be copied as one likes.
struct AttentionToFinish {
  alignas(8) unsigned char kept[96];
};

// The same in two parts, so that many calls' results are added up by one launch: `heads` is written by
// LaunchAttentionFinish alone, of calls in any number, on the same stream; their workspaces are their own
// until then. Equal bits.
LaunchStatus LaunchAttentionScores(const kernels::AttentionProblem& problem, const uint32_t* enabled,
                                   kernels::AttentionHeadStats* heads, kernels::Workspace workspace,
                                   Stream stream, AttentionToFinish* rest) noexcept;
// Returns a cudaError_t.
int LaunchAttentionFinish(const AttentionToFinish* calls, size_t count, Stream stream) noexcept;

}  // namespace foreshock::cuda
