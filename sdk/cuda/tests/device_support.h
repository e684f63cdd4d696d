// What tests on a GPU share: skipping where there is none, copies, and views of weights in device memory.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "foreshock/sdk/cuda/device.h"
#include "foreshock/sdk/cuda/device_buffer.h"
#include "foreshock/sdk/tensor_view.h"

#define FS_NEEDS_DEVICE() \
  if (!::foreshock::cuda::DriverSupport().usable) GTEST_SKIP() << "skipped: no CUDA device"

namespace foreshock::cuda {

inline void Check(cudaError_t error, const char* what) {
  ASSERT_EQ(error, cudaSuccess) << what << ": " << cudaGetErrorString(error);
}

template <typename T>
std::vector<T> FromDevice(const T* device, size_t count) {
  std::vector<T> host(count);
  Check(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return host;
}

// Bytes on the device, `shift` bytes past an aligned address.
class DeviceBytes {
 public:
  DeviceBytes(const void* host, size_t bytes, size_t shift = 0) : shift_(shift), bytes_(bytes) {
    auto made = DeviceBuffer::Make(0, bytes + shift + 16);
    if (!made.ok()) throw std::runtime_error(made.status().message());
    buffer_ = std::move(made).value();
    Write(host);
  }
  void Write(const void* host) {
    Check(cudaMemcpy(data(), host, bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  unsigned char* data() const { return buffer_.as<unsigned char>() + shift_; }

 private:
  size_t shift_, bytes_;
  DeviceBuffer buffer_;
};

}  // namespace foreshock::cuda
