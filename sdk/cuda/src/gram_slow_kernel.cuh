// Completes every head's G, one thread block each: adds up the partial matrices, in order, and takes the
// trace.
//
// Where the tensor cores could not do it (fp64 weights, weights whose squares leave fp32's range) G is
// computed here, in double. Also decides whether a head is finite. The weights are brought to size 1 by a
// power of two, which is recorded.
#pragma once

#include "kernel_launch.cuh"
#include "weight_tile.cuh"

namespace foreshock::cuda {

inline constexpr int kSlowThreads = 256;
inline constexpr int kSlowRows = 16;

__device__ __forceinline__ double LoadElement(const HeadRecord& h, int64_t i, int64_t j) {
  const int64_t at = i * h.row_stride + j * h.col_stride;
  switch (h.dtype) {
    case 1:
      return Widen(static_cast<const __nv_bfloat16*>(h.data)[at]);
    case 2:
      return Widen(static_cast<const __half*>(h.data)[at]);
    case 3:
      return static_cast<const float*>(h.data)[at];
    default:
      return static_cast<const double*>(h.data)[at];
  }
}

// Adds the partial matrices into the first and returns its trace, the same in every thread.
__device__ inline double AddUp(const HeadRecord& h, float* gram, double* shared) {
  float* g = gram + h.gram_at;
  const int floats = GramFloats(h.padded);
  if (h.splits > 1) {
    for (int e = threadIdx.x; e < floats; e += blockDim.x) {
      float total = g[e];
      for (int s = 1; s < h.splits; ++s) total += g[static_cast<int64_t>(s) * floats + e];
      g[e] = total;
    }
    __syncthreads();
  }
  double sum = 0;
  for (int j = threadIdx.x; j < h.padded; j += blockDim.x) {
    const int block = GramBlockAt(j / kGramBlock, j / kGramBlock, h.padded);
    sum += g[block * kGramBlock * kGramBlock + j % kGramBlock * (kGramBlock + 1)];
  }
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = sum;
  __syncthreads();
  double total = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) total += shared[w];
  __syncthreads();
  return total;
}

__global__ void __launch_bounds__(kSlowThreads)
    GramSlowKernel(const HeadRecord* heads, float* gram, GramRecord* records, const int* flag) {
  extern __shared__ __align__(16) double tile[];  // kSlowRows x padded
  __shared__ double reduce[kSlowThreads / 32];
  __shared__ int any_bad;
  WaitForKernelAhead();
  if (flag != nullptr && *flag == 0) return;
  const HeadRecord h = heads[blockIdx.x];
  GramRecord* record = records + blockIdx.x;
  if (!h.always_slow) {
    const double trace = AddUp(h, gram, reduce);
    if (trace > 1e-12 && trace < 1e30) {  // false for NaN
      if (threadIdx.x == 0) {
        record->trace = trace;
        record->exponent = 0;
        record->finite = 1;
      }
      return;
    }
  }
  // The largest size, and whether all are finite.
  if (threadIdx.x == 0) any_bad = 0;
  __syncthreads();
  double largest = 0;
  bool bad = false;
  const int64_t elements = static_cast<int64_t>(h.d_model) * h.d_head;
  for (int64_t e = threadIdx.x; e < elements; e += blockDim.x) {
    const bool by_row = h.order == Order::kHeadMajor;
    const int64_t i = by_row ? e / h.d_head : e % h.d_model;
    const int64_t j = by_row ? e % h.d_head : e / h.d_model;
    const double w = LoadElement(h, i, j);
    bad = bad || !isfinite(w);
    largest = fmax(largest, fabs(w));
  }
  for (int d = 16; d > 0; d >>= 1) largest = fmax(largest, __shfl_xor_sync(0xffffffffu, largest, d));
  if ((threadIdx.x & 31) == 0) reduce[threadIdx.x >> 5] = largest;
  if (bad) any_bad = 1;
  __syncthreads();
  for (int w = 0; w < kSlowThreads / 32; ++w) largest = fmax(largest, reduce[w]);
  const bool finite = any_bad == 0;
  int exponent = finite && largest > 0 ? ilogb(largest) : 0;
  if (!h.always_slow) exponent = max(exponent, -126);  // 2^-exponent must be an fp32 number
  if (threadIdx.x == 0) {
    record->exponent = exponent;
    record->finite = finite;
    record->trace = 0;
  }
  float* out = gram + h.gram_at;
  for (int e = threadIdx.x; e < GramFloats(h.padded); e += blockDim.x) out[e] = 0;
  if (!finite || largest == 0) return;
  __syncthreads();

  // Upper blocks entry by entry, kSlowRows rows at a time; each thread keeps up to kOwn entries.
  constexpr int kOwn = 16;
  const int entries = GramFloats(h.padded);
  for (int begin = 0; begin < entries; begin += kOwn * kSlowThreads) {
    double sum[kOwn] = {};
    for (int first = 0; first < h.d_model; first += kSlowRows) {
      for (int e = threadIdx.x; e < kSlowRows * h.padded; e += blockDim.x) {
        const int i = first + e / h.padded, j = e % h.padded;
        tile[e] = i < h.d_model && j < h.d_head ? scalbn(LoadElement(h, i, j), -exponent) : 0.0;
      }
      __syncthreads();
#pragma unroll
      for (int o = 0; o < kOwn; ++o) {
        const int e = begin + o * kSlowThreads + static_cast<int>(threadIdx.x);
        if (e >= entries) continue;
        int block = e / (kGramBlock * kGramBlock), r = 0;
        const int side = h.padded / kGramBlock;
        while (block >= side - r) block -= side - r++;
        const int a = r * kGramBlock + e / kGramBlock % kGramBlock,
                  b = (r + block) * kGramBlock + e % kGramBlock;
        for (int i = 0; i < kSlowRows; ++i) sum[o] += tile[i * h.padded + a] * tile[i * h.padded + b];
      }
      __syncthreads();
    }
#pragma unroll
    for (int o = 0; o < kOwn; ++o) {
      const int e = begin + o * kSlowThreads + static_cast<int>(threadIdx.x);
      if (e < entries) out[e] = static_cast<float>(sum[o]);
    }
  }
  __syncthreads();
  HeadRecord whole = h;
  whole.splits = 1;
  const double trace = AddUp(whole, gram, reduce);
  if (threadIdx.x == 0) record->trace = trace;
}

}  // namespace foreshock::cuda
