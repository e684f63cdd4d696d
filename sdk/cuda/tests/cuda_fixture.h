// Runs the attention probe on device copies of a host problem.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "../../kernels/tests/attention_fixture.h"
#include "foreshock/sdk/cuda/attention_probe.h"

#define FS_SKIP_WITHOUT_CUDA() \
  if (!DriverSupport().usable) GTEST_SKIP() << "skipped: no CUDA device"

namespace foreshock::cuda {

// Device memory freed at the end of the test. Allocations end where the data ends, so that a memory checker
// sees a read past it.
class DeviceCopies {
 public:
  DeviceCopies() = default;
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;
  ~DeviceCopies() {
    for (void* p : all_) EXPECT_EQ(cudaFree(p), cudaSuccess);
  }

  // `shift` bytes before the data make it misaligned.
  void* Allocate(size_t bytes, size_t shift = 0) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, std::max<size_t>(bytes + shift, 1)), cudaSuccess);
    EXPECT_EQ(cudaMemset(p, 0xff, std::max<size_t>(bytes + shift, 1)), cudaSuccess);
    all_.push_back(p);
    return static_cast<unsigned char*>(p) + shift;
  }
  template <typename T>
  T* Copy(const T* host, size_t count, size_t shift = 0) {
    if (host == nullptr) return nullptr;
    void* p = Allocate(count * sizeof(T), shift);
    EXPECT_EQ(cudaMemcpy(p, host, count * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
    return static_cast<T*>(p);
  }

  // A view's elements, whatever its (non-negative) strides.
  kernels::TensorView Copy(kernels::TensorView t, size_t shift_elements = 0) {
    if (t.data == nullptr || t.batch == 0 || t.seq == 0) return t;
    const int64_t elements = 1 + (t.batch - 1) * t.batch_stride + (t.seq - 1) * t.seq_stride +
                             (t.heads - 1) * t.head_stride + (t.dim - 1) * t.dim_stride;
    const size_t size = kernels::SizeOf(t.dtype);
    t.data = Copy(static_cast<const unsigned char*>(t.data), static_cast<size_t>(elements) * size,
                  shift_elements * size);
    return t;
  }
  kernels::ScoreView Copy(kernels::ScoreView v, const kernels::AttentionProblem& p, size_t element) {
    if (v.data == nullptr) return v;
    const int64_t sequences = p.cu_seqlens_q == nullptr ? p.q.batch : p.n_sequences;
    const int64_t elements =
        1 + std::max<int64_t>(0, sequences - 1) * v.batch_stride + (p.q.heads - 1) * v.head_stride +
        std::max<int64_t>(0, p.q.seq - 1) * v.query_stride + std::max<int64_t>(0, p.k.seq - 1) * v.key_stride;
    v.data = Copy(static_cast<const unsigned char*>(v.data), static_cast<size_t>(elements) * element);
    return v;
  }

  kernels::AttentionProblem Copy(kernels::AttentionProblem p, size_t shift_elements = 0) {
    const kernels::AttentionProblem host = p;
    p.q = Copy(host.q, shift_elements);
    p.k = Copy(host.k, shift_elements);
    const auto offsets = static_cast<size_t>(p.n_sequences + 1);
    p.cu_seqlens_q = Copy(host.cu_seqlens_q, offsets);
    p.cu_seqlens_k = Copy(host.cu_seqlens_k, offsets);
    p.keep_mask = Copy(host.keep_mask, host, 1);
    p.additive_mask = Copy(host.additive_mask, host, kernels::SizeOf(host.additive_mask.dtype));
    p.bias = Copy(host.bias, host, kernels::SizeOf(host.bias.dtype));
    p.alibi_slopes = Copy(host.alibi_slopes, static_cast<size_t>(p.q.heads));
    p.sinks = Copy(host.sinks, static_cast<size_t>(p.q.heads * p.n_sinks));
    return p;
  }

 private:
  std::vector<void*> all_;
};

inline kernels::Workspace AttentionWorkspace(const kernels::AttentionProblem& p, DeviceCopies* copies) {
  const size_t bytes = AttentionProbeWorkspaceBytes(p);
  return {copies->Allocate(bytes, 8), bytes};
}

// The statistics of a problem whose pointers are the host's.
inline std::vector<kernels::AttentionHeadStats> RunOnDevice(const kernels::AttentionProblem& host,
                                                            size_t shift_elements = 0) {
  DeviceCopies copies;
  const kernels::AttentionProblem p = copies.Copy(host, shift_elements);
  std::vector<kernels::AttentionHeadStats> heads(static_cast<size_t>(p.q.heads));
  const size_t bytes = heads.size() * sizeof(heads[0]);
  auto* out = static_cast<kernels::AttentionHeadStats*>(copies.Allocate(bytes));
  const LaunchStatus status = LaunchAttentionProbe(p, nullptr, out, AttentionWorkspace(p, &copies), nullptr);
  EXPECT_EQ(status.status, kernels::KernelStatus::kOk);
  EXPECT_EQ(status.cuda_error, cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(heads.data(), out, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  return heads;
}

}  // namespace foreshock::cuda
