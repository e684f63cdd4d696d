#include "foreshock/sdk/cuda/read_back.h"

#include <cuda_runtime_api.h>

namespace foreshock::cuda {

Status ReadBack(void* pinned, const void* on_device, size_t bytes, int device, Stream stream) noexcept {
  const DeviceGuard guard(device);
  if (!guard.ok()) return Status(Code::kUnavailable, "no such CUDA device");
  if (IsCapturing(stream)) return Status(Code::kUnavailable, "its stream records a CUDA graph");
  return CudaStatus(
      cudaMemcpyAsync(pinned, on_device, bytes, cudaMemcpyDeviceToHost, static_cast<cudaStream_t>(stream)),
      "cudaMemcpyAsync");
}

}  // namespace foreshock::cuda
