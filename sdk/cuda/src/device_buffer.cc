#include "foreshock/sdk/cuda/device_buffer.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

namespace foreshock::cuda {
namespace {

Status NoDevice(int device) {
  return Status(Code::kUnavailable, "CUDA device " + std::to_string(device) + " is not there");
}

}  // namespace

Result<DeviceBuffer> DeviceBuffer::Make(int device, size_t bytes) {
  const DeviceGuard guard(device);
  if (!guard.ok()) return NoDevice(device);
  DeviceBuffer made;
  made.device_ = device;
  if (bytes == 0) return made;
  FS_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&made.data_, bytes), "cudaMalloc"));
  made.bytes_ = bytes;
  // On a stream of its own: every other must see the zeros, and the trainer's need not be waited for.
  cudaStream_t stream = nullptr;
  FS_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"));
  cudaError_t error = cudaMemsetAsync(made.data_, 0, bytes, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  (void)cudaStreamDestroy(stream);
  FS_RETURN_IF_ERROR(CudaStatus(error, "cudaMemset"));
  return made;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  const DeviceGuard guard(device_);
  (void)cudaFree(data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

Result<PinnedBuffer> PinnedBuffer::Make(int device, size_t bytes) {
  const DeviceGuard guard(device);
  if (!guard.ok()) return NoDevice(device);
  PinnedBuffer made;
  made.device_ = device;
  if (bytes == 0) return made;
  FS_RETURN_IF_ERROR(CudaStatus(cudaHostAlloc(&made.data_, bytes, cudaHostAllocPortable), "cudaHostAlloc"));
  made.bytes_ = bytes;
  std::memset(made.data_, 0, bytes);
  return made;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ == nullptr) return;
  const DeviceGuard guard(device_);
  (void)cudaFreeHost(data_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

Result<DeviceEvent> DeviceEvent::Make(int device, bool timed) {
  const DeviceGuard guard(device);
  if (!guard.ok()) return NoDevice(device);
  DeviceEvent made;
  made.device_ = device;
  cudaEvent_t event = nullptr;
  const unsigned flags = timed ? cudaEventDefault : cudaEventDisableTiming;
  FS_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&event, flags), "cudaEventCreate"));
  made.event_ = event;
  return made;
}

DeviceEvent::~DeviceEvent() {
  if (event_ == nullptr) return;
  const DeviceGuard guard(device_);
  (void)cudaEventDestroy(static_cast<cudaEvent_t>(event_));
}

DeviceEvent::DeviceEvent(DeviceEvent&& other) noexcept { *this = std::move(other); }

DeviceEvent& DeviceEvent::operator=(DeviceEvent&& other) noexcept {
  std::swap(event_, other.event_);
  std::swap(device_, other.device_);
  return *this;
}

Status DeviceEvent::Record(Stream stream) const noexcept {
  return CudaStatus(cudaEventRecord(static_cast<cudaEvent_t>(event_), static_cast<cudaStream_t>(stream)),
                    "cudaEventRecord");
}

Status FillAsync(void* device, int byte, size_t bytes, Stream stream) noexcept {
  return CudaStatus(cudaMemsetAsync(device, byte, bytes, static_cast<cudaStream_t>(stream)),
                    "cudaMemsetAsync");
}

Status CopyToHostAsync(void* pinned, const void* device, size_t bytes, Stream stream) noexcept {
  return CudaStatus(
      cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, static_cast<cudaStream_t>(stream)),
      "cudaMemcpyAsync");
}

Status DeviceEvent::Await(Stream stream) const noexcept {
  return CudaStatus(
      cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event_), 0),
      "cudaStreamWaitEvent");
}

Status DeviceEvent::Reached() const noexcept {
  const DeviceGuard guard(device_);  // a query would break a capture that this thread has under way
  const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(event_));
  if (error == cudaErrorNotReady) return Status(Code::kUnavailable, "");
  return CudaStatus(error, "cudaEventQuery");
}

double DeviceEvent::NanosSince(const DeviceEvent& earlier) const noexcept {
  float milliseconds = 0;
  const cudaError_t error = cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(earlier.event_),
                                                 static_cast<cudaEvent_t>(event_));
  if (error == cudaSuccess) return static_cast<double>(milliseconds) * 1e6;
  (void)cudaGetLastError();
  return 0;
}

}  // namespace foreshock::cuda
