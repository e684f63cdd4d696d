// The rounding probe on the GPU: the same sums as kernels::ProbeRounding. O and dQ are recomputed in fp32
// from q, k and v; softmax sums and everything a row comes to are taken in double. Plain C++: no CUDA header
// is needed to call it.
//
// Results are bitwise equal from run to run on the same kind of device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "foreshock/sdk/cuda/attention_probe.h"
#include "foreshock/sdk/cuda/device.h"
#include "foreshock/sdk/rounding_probe.h"

namespace foreshock::cuda {

// Head sizes (of q and k, of v) above this are refused.
inline constexpr int64_t kMaxRoundingDimOnDevice = 256;

// Bytes of device memory that LaunchRoundingProbe needs: depends on the shapes of q, k and v, on n_sequences
// and on row_every alone; 0 for shapes that it refuses.
size_t RoundingProbeWorkspaceBytes(const kernels::RoundingProblem& problem) noexcept;

// Enqueues the probe; see LaunchAttentionProbe for memory, `enabled`, capture and cu_seqlens (bad ones leave
// every head without rows). Refuses (kBadShape) head sizes above kMaxRoundingDimOnDevice.
LaunchStatus LaunchRoundingProbe(const kernels::RoundingProblem& problem, const uint32_t* enabled,
                                 kernels::RoundingHeadStats* heads, kernels::Workspace workspace,
                                 Stream stream) noexcept;

}  // namespace foreshock::cuda
