// The headers of the attention and rounding probes in a build without CUDA.
#include "foreshock/sdk/cuda/attention_probe.h"
#include "foreshock/sdk/cuda/rounding_probe.h"

namespace foreshock::cuda {
namespace {

constexpr int kInsufficientDriver = 35;  // cudaErrorInsufficientDriver

}  // namespace

size_t AttentionProbeWorkspaceBytes(const kernels::AttentionProblem&) noexcept { return 0; }

LaunchStatus LaunchAttentionProbe(const kernels::AttentionProblem&, const uint32_t*,
                                  kernels::AttentionHeadStats*, kernels::Workspace, Stream) noexcept {
  return {kernels::KernelStatus::kOk, kInsufficientDriver};
}

LaunchStatus LaunchAttentionScores(const kernels::AttentionProblem&, const uint32_t*,
                                   kernels::AttentionHeadStats*, kernels::Workspace, Stream,
                                   AttentionToFinish*) noexcept {
  return {kernels::KernelStatus::kOk, kInsufficientDriver};
}

int LaunchAttentionFinish(const AttentionToFinish*, size_t, Stream) noexcept { return kInsufficientDriver; }

size_t RoundingProbeWorkspaceBytes(const kernels::RoundingProblem&) noexcept { return 0; }

LaunchStatus LaunchRoundingProbe(const kernels::RoundingProblem&, const uint32_t*,
                                 kernels::RoundingHeadStats*, kernels::Workspace, Stream) noexcept {
  return {kernels::KernelStatus::kOk, kInsufficientDriver};
}

}  // namespace foreshock::cuda
