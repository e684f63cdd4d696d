// The attention probe's header in a build without CUDA.
#include "foreshock/sdk/cuda/attention_probe.h"

namespace foreshock::cuda {
namespace {

constexpr int kInsufficientDriver = 35;  // cudaErrorInsufficientDriver

}  // namespace

size_t AttentionProbeWorkspaceBytes(const kernels::AttentionProblem&) noexcept { return 0; }

LaunchStatus LaunchAttentionProbe(const kernels::AttentionProblem&, const uint32_t*,
                                  kernels::AttentionHeadStats*, kernels::Workspace, Stream) noexcept {
  return {kernels::KernelStatus::kOk, kInsufficientDriver};
}

}  // namespace foreshock::cuda
