// Launches of the eigen-solvers (eigen_kernel.cuh): a block a head for the leading vectors of G, and a block
// that goes through pairs of heads for the largest singular value of W_Q W_K^T.
#include <cuda_runtime.h>

#include <algorithm>

#include "eigen_kernel.cuh"
#include "padded_size.h"
#include "weight_launch.h"

namespace foreshock::cuda {
namespace {

cudaStream_t Of(DeviceStream stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

int LaunchSpectrum(const WeightBuffers& b, int padded, int first, int count, float* v, const int* flag,
                   DeviceStream stream) {
  if (count == 0) return 0;
  return WithSize(padded, [&](auto n) {
    (void)LaunchEarly<SpectrumKernel<n>>(count, EigenShape<n, false>::kThreads, sizeof(EigenShared<n>),
                                         Of(stream), b.heads, b.head_list + first, b.gram, b.basis, v,
                                         b.records, flag);
  });
}

int LaunchQk(const WeightBuffers& b, int padded, int first, int count, const int* flag, DeviceStream stream) {
  if (count == 0) return 0;
  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error != cudaSuccess) return error;
  return WithSize(padded, [&](auto n) {
    int resident = 0;  // blocks that a multiprocessor holds
    constexpr int kThreads = EigenShape<n, true>::kThreads;
    constexpr size_t kBytes = sizeof(EigenShared<n>);
    const cudaError_t found =
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, QkKernel<n>, kThreads, kBytes);
    int blocks = found == cudaSuccess ? std::max(1, resident) * multiprocessors : count;
    // Pairs that have no room at once would keep the pass over W, which runs beside them, off every
    // multiprocessor: they get half of them, and the pass the rest, which nearly suffice to read at full
    // speed.
    if (count > blocks) blocks = std::max(1, blocks / 2);
    QkKernel<n><<<std::min(count, blocks), kThreads, kBytes, Of(stream)>>>(
        b.heads, b.qk, b.qk_list + first, count, b.gram, b.basis, b.records, b.qk_sigma1, flag);
  });
}

}  // namespace foreshock::cuda
