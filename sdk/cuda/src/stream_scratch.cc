#include "foreshock/sdk/cuda/stream_scratch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

namespace foreshock::cuda {

StreamScratch::~StreamScratch() {
  if (data_ == nullptr) return;
  // The stream may be gone; cudaFree takes stream-ordered memory too, and waits for nobody.
  const DeviceGuard guard(device_);
  (void)cudaFree(data_);
}

StreamScratch::StreamScratch(StreamScratch&& other) noexcept { *this = std::move(other); }

StreamScratch& StreamScratch::operator=(StreamScratch&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

Status StreamScratch::Reserve(size_t bytes, Stream stream) noexcept {
  if (bytes <= bytes_) return OkStatus();
  const auto on = static_cast<cudaStream_t>(stream);
  const size_t wanted = std::max(bytes, 2 * bytes_);
  if (data_ != nullptr) {
    FS_RETURN_IF_ERROR(CudaStatus(cudaFreeAsync(data_, on), "cudaFreeAsync"));
    data_ = nullptr;
    bytes_ = 0;
  }
  FS_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device_), "cudaGetDevice"));
  FS_RETURN_IF_ERROR(CudaStatus(cudaMallocAsync(&data_, wanted, on), "cudaMallocAsync"));
  bytes_ = wanted;
  return OkStatus();
}

}  // namespace foreshock::cuda
