// Launches of the kernels that make G = W^T W: Hopper's (gram_hopper_kernel.cuh) for heads of 64 or 128
// columns whose lines run along d_model, the portable one (gram_kernel.cuh) for the others, then
// gram_slow_kernel.cuh, which adds up a head's parts, takes the trace, and does over what fp32 could not
// hold.
#include <cuda_runtime.h>

#include "gram_hopper_kernel.cuh"
#include "gram_kernel.cuh"
#include "gram_slow_kernel.cuh"
#include "padded_size.h"
#include "weight_launch.h"

namespace foreshock::cuda {
namespace {

cudaStream_t Of(DeviceStream stream) { return static_cast<cudaStream_t>(stream); }

template <int N, typename T>
int AllowGram() {
  return cudaFuncSetAttribute(GramKernel<N, T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              GramSharedBytes<N, T>());
}

template <int N, typename T>
void Gram(const WeightBuffers& b, int first, int count, const int* flag, DeviceStream stream) {
  GramKernel<N, T><<<count, GramShape<N>::kThreads, GramSharedBytes<N, T>(), Of(stream)>>>(
      b.heads, b.gram_chunks + first, b.gram, flag);
}

template <int N, typename T, bool kHeadMajor>
int AllowHopper() {
  return cudaFuncSetAttribute(GramHopperKernel<N, T, kHeadMajor>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              HopperShape<N, T>::kSharedBytes);
}

template <int N, typename T, bool kHeadMajor>
void GramHopper(const WeightBuffers& b, int first, int count, const int* flag, DeviceStream stream) {
  using Shape = HopperShape<N, T>;
  GramHopperKernel<N, T, kHeadMajor><<<count, Shape::kThreads, Shape::kSharedBytes, Of(stream)>>>(
      b.heads, b.gram_chunks + first, b.gram, flag);
}

template <int N>
bool GramHopperOfType(const WeightBuffers& b, int dtype, bool head_major, int first, int count,
                      const int* flag, DeviceStream stream) {
  switch (dtype) {
    case 1:
      head_major ? GramHopper<N, __nv_bfloat16, true>(b, first, count, flag, stream)
                 : GramHopper<N, __nv_bfloat16, false>(b, first, count, flag, stream);
      return true;
    case 2:
      head_major ? GramHopper<N, __half, true>(b, first, count, flag, stream)
                 : GramHopper<N, __half, false>(b, first, count, flag, stream);
      return true;
    case 3:
      if (head_major) return false;
      GramHopper<N, float, false>(b, first, count, flag, stream);
      return true;
    default:
      return false;
  }
}

template <int N>
int AllowHopperSize() {
  int error = AllowHopper<N, __nv_bfloat16, false>();
  if (error == 0) error = AllowHopper<N, __nv_bfloat16, true>();
  if (error == 0) error = AllowHopper<N, __half, false>();
  if (error == 0) error = AllowHopper<N, __half, true>();
  if (error == 0) error = AllowHopper<N, float, false>();
  return error;
}

template <int N>
bool GramOfType(const WeightBuffers& b, int dtype, int first, int count, const int* flag,
                DeviceStream stream) {
  switch (dtype) {
    case 1:
      Gram<N, __nv_bfloat16>(b, first, count, flag, stream);
      return true;
    case 2:
      Gram<N, __half>(b, first, count, flag, stream);
      return true;
    case 3:
      Gram<N, float>(b, first, count, flag, stream);
      return true;
    default:
      return false;
  }
}

template <int N>
int AllowSize() {
  int error = AllowGram<N, __nv_bfloat16>();
  if (error == 0) error = AllowGram<N, __half>();
  if (error == 0) error = AllowGram<N, float>();
  return error;
}

constexpr int SlowBytes(int padded) { return kSlowRows * padded * static_cast<int>(sizeof(double)); }

}  // namespace

int PrepareWeightKernels() {
  int error = AllowSize<32>();
  if (error == 0) error = AllowSize<64>();
  if (error == 0) error = AllowSize<128>();
  if (error == 0) error = AllowSize<256>();
  if (error == 0) error = AllowHopperSize<64>();
  if (error == 0) error = AllowHopperSize<128>();
  return error;
}

bool HasHopperKernels(int major, int minor) {
#ifdef FORESHOCK_CUDA_SM90A
  return major == 9 && minor == 0;
#else
  (void)major;
  (void)minor;
  return false;
#endif
}

int LaunchGram(const WeightBuffers& b, int padded, int dtype, GramKind kind, int first, int count,
               const int* flag, DeviceStream stream) {
  if (count == 0) return 0;
  bool known = true;
  const int error = WithSize(padded, [&](auto n) {
    if constexpr (n == 64 || n == 128) {
      if (kind != GramKind::kPortable) {
        known = GramHopperOfType<n>(b, dtype, kind == GramKind::kHopperHeadMajor, first, count, flag, stream);
        return;
      }
    }
    known = GramOfType<n>(b, dtype, first, count, flag, stream);
  });
  return known ? error : static_cast<int>(cudaErrorInvalidValue);
}

int LaunchGramSlow(const WeightBuffers& b, int heads, int padded, const int* flag, DeviceStream stream) {
  if (heads == 0) return 0;
  return LaunchEarly<GramSlowKernel>(heads, kSlowThreads, SlowBytes(padded), Of(stream), b.heads, b.gram,
                                     b.records, flag);
}

}  // namespace foreshock::cuda
