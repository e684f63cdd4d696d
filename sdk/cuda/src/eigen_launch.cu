#include <cuda_runtime.h>

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
    SpectrumKernel<n><<<count, EigenShape<n, false>::kThreads, sizeof(EigenShared<n>), Of(stream)>>>(
        b.heads, b.head_list + first, b.gram, b.basis, v, b.records, flag);
  });
}

int LaunchQk(const WeightBuffers& b, int padded, int first, int count, const int* flag, DeviceStream stream) {
  if (count == 0) return 0;
  return WithSize(padded, [&](auto n) {
    QkKernel<n><<<count, EigenShape<n, true>::kThreads, sizeof(EigenShared<n>), Of(stream)>>>(
        b.heads, b.qk, b.qk_list + first, b.gram, b.basis, b.records, b.qk_sigma1, flag);
  });
}

}  // namespace foreshock::cuda
