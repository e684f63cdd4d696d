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

// The most dynamic shared memory that a block may have on the current device.
int SharedLimit() {
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  const cudaError_t error = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return error == cudaSuccess ? bytes : 0;
}

// Staging must not keep blocks off a multiprocessor that its registers have room for.
template <int N>
bool StagesSpectrum() {
  if constexpr (!MayBeStaged<N>()) return false;
  int device = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  constexpr int kBlocks = 256 / N, kReserved = 1024;  // of a block, by CUDA
  return cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) == cudaSuccess &&
         kBlocks * (SpectrumBytes<N, true>() + kReserved) <= bytes;
}
template <int N>
bool StagesQk(int limit) {
  return MayBeStaged<N>() && QkBytes<N, true>() <= limit;
}

template <int N, bool kStaged>
int AllowSpectrum() {
  return AllowShared<SpectrumKernel<N, kStaged>>(SpectrumBytes<N, kStaged>());
}
template <int N, bool kStaged>
int AllowQk() {
  return AllowShared<QkKernel<N, kStaged>>(QkBytes<N, kStaged>());
}

template <int N>
int AllowEigen(int limit) {
  int error = 0;
  if constexpr (MayBeStaged<N>()) {
    if (StagesSpectrum<N>()) error = AllowSpectrum<N, true>();
    if (error == 0 && StagesQk<N>(limit)) error = AllowQk<N, true>();
  }
  if (error == 0) error = AllowSpectrum<N, false>();
  if (error == 0) error = AllowQk<N, false>();
  return error;
}

template <int N, bool kStaged>
void Spectrum(const WeightBuffers& b, int first, int count, float* v, const int* flag, DeviceStream stream) {
  (void)LaunchEarly<SpectrumKernel<N, kStaged>>(count, EigenShape<N, false>::kThreads,
                                                SpectrumBytes<N, kStaged>(), Of(stream), b.heads,
                                                b.head_list + first, b.gram, b.basis, v, b.records, flag);
}

template <int N, bool kStaged>
void Qk(const WeightBuffers& b, int first, int count, int multiprocessors, const int* flag,
        DeviceStream stream) {
  int resident = 0;  // blocks that a multiprocessor holds
  constexpr int kThreads = EigenShape<N, true>::kThreads, kBytes = QkBytes<N, kStaged>();
  const cudaError_t found =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, QkKernel<N, kStaged>, kThreads, kBytes);
  int blocks = found == cudaSuccess ? std::max(1, resident) * multiprocessors : count;
  // Pairs that have no room at once would keep the pass over W, which runs beside them, off every
  // multiprocessor: they get half of them, and the pass the rest, which nearly suffice to read at full
  // speed.
  if (count > blocks) blocks = std::max(1, blocks / 2);
  QkKernel<N, kStaged><<<std::min(count, blocks), kThreads, kBytes, Of(stream)>>>(
      b.qk + first, count, b.gram, b.basis, b.records, b.qk_sigma1, flag);
}

}  // namespace

int PrepareEigenKernels() {
  const int limit = SharedLimit();
  int error = AllowEigen<32>(limit);
  if (error == 0) error = AllowEigen<64>(limit);
  if (error == 0) error = AllowEigen<128>(limit);
  if (error == 0) error = AllowEigen<256>(limit);
  return error;
}

int LaunchSpectrum(const WeightBuffers& b, int padded, int first, int count, float* v, const int* flag,
                   DeviceStream stream) {
  if (count == 0) return 0;
  return WithSize(padded, [&](auto n) {
    if constexpr (MayBeStaged<n>()) {
      if (StagesSpectrum<n>()) return Spectrum<n, true>(b, first, count, v, flag, stream);
    }
    Spectrum<n, false>(b, first, count, v, flag, stream);
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
    if constexpr (MayBeStaged<n>()) {
      if (StagesQk<n>(SharedLimit())) return Qk<n, true>(b, first, count, multiprocessors, flag, stream);
    }
    Qk<n, false>(b, first, count, multiprocessors, flag, stream);
  });
}

}  // namespace foreshock::cuda
