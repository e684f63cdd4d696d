// What launches share.
//
// LaunchEarly: a kernel that may be launched before the one ahead of it on the stream has ended (programmatic
// dependent launch, from sm_90 on); its launch then costs no time between the two.
//
// AllowShared: more than 48 KB of shared memory for a kernel.
//
// CUDA sources only.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <mutex>

namespace foreshock::cuda {

// The first thing in a kernel that LaunchEarly launches: returns when the kernel ahead has ended and what it
// wrote can be read.
__device__ __forceinline__ void WaitForKernelAhead() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();  // the next one may be launched early in its turn
  cudaGridDependencySynchronize();
#endif
}

// Whether the current device runs code of the kernel that has the wait in it. PTX of an older architecture,
// compiled when it is loaded, has none, on whatever device.
template <auto kKernel>
bool WaitsForKernelAhead() {
  constexpr int kMost = 64;
  static std::atomic<signed char> known[kMost];  // 0: not looked at, 1: it does, -1: it does not
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= kMost) return false;
  signed char found = known[device].load(std::memory_order_relaxed);
  if (found == 0) {
    cudaFuncAttributes code{};
    const bool waits = cudaFuncGetAttributes(&code, kKernel) == cudaSuccess && code.ptxVersion >= 90;
    found = waits ? 1 : -1;
    known[device].store(found, std::memory_order_relaxed);
  }
  return found > 0;
}

template <auto kKernel, typename... Arguments>
cudaError_t LaunchEarly(unsigned blocks, unsigned threads, size_t shared_bytes, cudaStream_t stream,
                        const Arguments&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = WaitsForKernelAhead<kKernel>() ? 1 : 0;
  return cudaLaunchKernelEx(&config, kKernel, arguments...);
}

// Lets a kernel have `bytes` of dynamic shared memory a block on the current device. CUDA is asked when that
// grows and at no other time, because asking takes host memory.
template <auto kKernel>
cudaError_t AllowShared(size_t bytes) {
  constexpr int kMost = 64;
  static std::mutex growing;
  static std::atomic<size_t> allowed[kMost];
  int device = 0;
  const cudaError_t found = cudaGetDevice(&device);
  if (found != cudaSuccess) return found;
  const bool known = device < kMost;
  if (known && allowed[device].load(std::memory_order_acquire) >= bytes) return cudaSuccess;
  const std::lock_guard<std::mutex> lock(growing);
  if (known && allowed[device].load(std::memory_order_relaxed) >= bytes) return cudaSuccess;
  const cudaError_t error =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
  } else if (known) {
    allowed[device].store(bytes, std::memory_order_release);
  }
  return error;
}

}  // namespace foreshock::cuda
