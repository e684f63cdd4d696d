// What the tests of a GPU through the C interface share: device memory, streams, and the toy model's
// activations.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "foreshock/foreshock.h"
#include "foreshock/sdk/cuda/device.h"
#include "foreshock/sdk/dtype.h"
#include "toy_model.h"

#define FS_NEEDS_DEVICE() \
  if (!::foreshock::cuda::DriverSupport().usable) GTEST_SKIP() << "skipped: no CUDA device"

namespace foreshock::testing {

// Device memory, freed at the end.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() {
    for (void* p : all_) EXPECT_EQ(cudaFree(p), cudaSuccess);
  }
  void* Copy(const void* host, size_t bytes) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, bytes), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(p, host, bytes, cudaMemcpyHostToDevice), cudaSuccess);
    all_.push_back(p);
    return p;
  }

 private:
  std::vector<void*> all_;
};

class Stream {
 public:
  // As PyTorch's: not ordered with the default stream.
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  operator cudaStream_t() const { return stream_; }  // NOLINT: stands for it everywhere

 private:
  cudaStream_t stream_ = nullptr;
};

// While it lives, every CUDA call on the stream fails: it records a graph that was spoilt.
class BrokenCapture {
 public:
  explicit BrokenCapture(cudaStream_t stream) : stream_(stream) {
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_NE(cudaStreamSynchronize(stream_), cudaSuccess);  // forbidden there
    (void)cudaGetLastError();
  }
  BrokenCapture(const BrokenCapture&) = delete;
  BrokenCapture& operator=(const BrokenCapture&) = delete;
  ~BrokenCapture() {
    cudaGraph_t graph = nullptr;
    EXPECT_NE(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    (void)cudaGetLastError();
  }

 private:
  cudaStream_t stream_;
};

// The toy model's activations in a dtype, in host memory or on a device.
class Activations {
 public:
  Activations(const ToyModel& m, fs_dtype dtype, bool on_device)
      : s_(m.s), dtype_(dtype), device_(on_device) {
    q_ = Place(m.q);
    k_ = Place(m.k);
    v_ = Place(m.v);
    o_ = Place(m.o);
    d_o_ = Place(m.d_o);
    dq_ = Place(m.dq);
    if (!on_device) return;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // streams of tests wait for nothing
  }
  fs_attention Forward(void* stream = nullptr) const {
    fs_attention a;
    fs_attention_init(&a);
    a.q = fs_tensor_bshd(q_, dtype_, s_.batch, s_.seq, s_.heads, s_.dim);
    a.k = fs_tensor_bshd(k_, dtype_, s_.batch, s_.seq, s_.kv_heads, s_.dim);
    a.v = fs_tensor_bshd(v_, dtype_, s_.batch, s_.seq, s_.kv_heads, s_.dim);
    a.o = fs_tensor_bshd(o_, dtype_, s_.batch, s_.seq, s_.heads, s_.dim);
    a.stream = stream;
    return a;
  }
  fs_attention Backward(void* stream = nullptr) const {
    fs_attention a = Forward(stream);
    a.d_o = fs_tensor_bshd(d_o_, dtype_, s_.batch, s_.seq, s_.heads, s_.dim);
    a.dq = fs_tensor_bshd(dq_, dtype_, s_.batch, s_.seq, s_.heads, s_.dim);
    return a;
  }

 private:
  const void* Place(const std::vector<float>& values) {
    const auto dtype = static_cast<kernels::DType>(dtype_);
    std::vector<unsigned char> bytes(values.size() * kernels::SizeOf(dtype));
    for (size_t i = 0; i < values.size(); ++i)
      kernels::StoreFloat(bytes.data(), dtype, static_cast<int64_t>(i), values[i]);
    if (device_) return gpu_.Copy(bytes.data(), bytes.size());
    host_.push_back(std::move(bytes));
    return host_.back().data();
  }

  ToyShape s_;
  fs_dtype dtype_;
  bool device_;
  Device gpu_;
  std::vector<std::vector<unsigned char>> host_;
  const void *q_, *k_, *v_, *o_, *d_o_, *dq_;
};

}  // namespace foreshock::testing
