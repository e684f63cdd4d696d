// Launches of what reads W a second time: r_i and c_i (project_kernel.cuh) every step, y = W v in sampled
// steps, and from y the sigma, u and v (finish_kernel.cuh); and the clearing of a window's sums.
#include <cuda_runtime.h>

#include "finish_kernel.cuh"
#include "kernel_launch.cuh"
#include "project_kernel.cuh"
#include "weight_launch.h"

namespace foreshock::cuda {
namespace {

cudaStream_t Of(DeviceStream stream) { return static_cast<cudaStream_t>(stream); }

__global__ void ClearKernel(UpdateRecord* updates, int heads, bool forget) {
  const int head = blockIdx.x * blockDim.x + threadIdx.x;
  if (head >= heads) return;
  UpdateRecord* u = updates + head;
  for (int i = 0; i < kPairsOf; ++i) {
    u->sum_c[i] = u->sum_abs_c[i] = u->sum_sign[i] = 0;
    u->nonzero[i] = u->rotated[i] = 0;
    if (forget) u->r[i] = u->last_c[i] = 0;
  }
}

ProjectArguments Arguments(const WeightBuffers& b, int first, const int* flag) {
  ProjectArguments a{};
  a.heads = b.heads;
  a.chunks = b.project_chunks + first;
  a.records = b.records;
  a.partial = b.partial;
  a.arrived = b.arrived;
  a.updates = b.updates;
  a.count = Count::kNothing;
  a.flag = flag;
  return a;
}

// Sampled steps' pass is not launched early: its blocks would take the room that the solver of W_Q W_K^T, on
// a stream beside, needs whole multiprocessors of.
template <Pass kPass, auto kKernel>
cudaError_t LaunchKernel(const ProjectArguments& a, int blocks, int bytes, DeviceStream stream) {
  if constexpr (RowSums<kPass>::kMakesY) {
    kKernel<<<blocks, kProjectThreads, bytes, Of(stream)>>>(a);
    return cudaGetLastError();
  } else {
    return LaunchEarly<kKernel>(blocks, kProjectThreads, bytes, Of(stream), a);
  }
}

template <Pass kPass, typename T>
cudaError_t LaunchOf(const ProjectArguments& a, const ProjectGroup& group, int bytes, DeviceStream stream) {
  if (group.head_major)
    return LaunchKernel<kPass, ProjectKernel<kPass, T, true>>(a, group.count, bytes, stream);
  const int ring = RowSums<kPass>::kMakesY ? kRingBytes : 0;
  return LaunchKernel<kPass, ProjectKernel<kPass, T, false>>(a, group.count, bytes + ring, stream);
}

template <Pass kPass>
int Launch(const ProjectArguments& a, const ProjectGroup& group, int d_head, DeviceStream stream) {
  if (group.count == 0) return 0;
  const int bytes = d_head * 8 * static_cast<int>(sizeof(float));
  switch (group.dtype) {
    case 1:
      return LaunchOf<kPass, __nv_bfloat16>(a, group, bytes, stream);
    case 2:
      return LaunchOf<kPass, __half>(a, group, bytes, stream);
    case 3:
      return LaunchOf<kPass, float>(a, group, bytes, stream);
    case 4:
      return LaunchOf<kPass, double>(a, group, bytes, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

int LaunchSpectraPass(const WeightBuffers& b, const ProjectGroup& group, int d_head, Pairs next,
                      const Pairs* now, const int* flag, DeviceStream stream) {
  ProjectArguments a = Arguments(b, group.first, flag);
  a.v = next.v;
  a.y = next.u;
  if (now == nullptr) return Launch<Pass::kSpectra>(a, group, d_head, stream);
  a.now = {now->u, now->v};
  return Launch<Pass::kSample>(a, group, d_head, stream);
}

int LaunchFinish(const WeightBuffers& b, int heads, Pairs next, bool counts, double learning_rate,
                 const int* flag, DeviceStream stream) {
  if (heads == 0) return 0;
  return LaunchEarly<FinishKernel>(heads, kFinishThreads, 0, Of(stream),
                                   FinishArguments{b.heads, b.records, b.partial, next.u, next.v, b.spectra,
                                                   flag, counts ? b.updates : nullptr, learning_rate});
}

int LaunchProject(const WeightBuffers& b, const ProjectGroup& group, int d_head, Pairs now, const Pairs* next,
                  Counting counting, double learning_rate, const int* flag, DeviceStream stream) {
  ProjectArguments a = Arguments(b, group.first, flag);
  a.now = {now.u, now.v};
  a.count = static_cast<Count>(counting);
  a.learning_rate = learning_rate;
  if (next == nullptr) return Launch<Pass::kProject>(a, group, d_head, stream);
  a.next = {next->u, next->v};
  return Launch<Pass::kRefresh>(a, group, d_head, stream);
}

int LaunchClear(const WeightBuffers& b, int heads, bool forget, DeviceStream stream) {
  if (heads == 0) return 0;
  ClearKernel<<<(heads + 127) / 128, 128, 0, Of(stream)>>>(b.updates, heads, forget);
  return cudaGetLastError();
}

}  // namespace foreshock::cuda
