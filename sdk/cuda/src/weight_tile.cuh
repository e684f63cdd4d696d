// Tiles of W in shared memory as the tensor cores read them.
//
// A tile holds 64 rows (i, along d_model) of N columns (j, along d_head) in 16-bit elements. It keeps the
// order of global memory: lines of 64 i for each j (model-major), or of N j for each i (head-major). Chunks
// of 16 bytes are swizzled within a line so that eight lines read at the same place hit different banks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "mma_sync.cuh"
#include "weight_tables.h"

namespace foreshock::cuda {

// Byte offset of a chunk; a line has `chunks` of them (a power of 2, at least 4).
template <int kChunks>
__device__ __forceinline__ int ChunkOffset(int line, int chunk) {
  const int turn = kChunks >= 8 ? (line & 7) : ((line >> 1) & 3);
  return (line * kChunks + (chunk ^ turn)) * 16;
}

template <bool kTransposed>
__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  } else {
    LoadMatrix4(r, address);
  }
}

// d += A B, 16 x 8 x 16, fp32 accumulators. T is the weights' type: fp32 ones were split into bf16.
template <typename T>
__device__ __forceinline__ void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (__is_same(T, __half)) {
    Mma(d, a, b0, b1, __half{});
  } else {
    Mma(d, a, b0, b1, __nv_bfloat16{});
  }
}

// A pair of values as two packed bf16 and what their rounding left, packed too: 16 bits of significand.
__device__ __forceinline__ void SplitPair(float x, float y, uint32_t* high, uint32_t* low) {
  const __nv_bfloat162 h = __floats2bfloat162_rn(x, y);
  const __nv_bfloat162 l = __floats2bfloat162_rn(x - __low2float(h), y - __high2float(h));
  *high = reinterpret_cast<const uint32_t&>(h);
  *low = reinterpret_cast<const uint32_t&>(l);
}

__device__ __forceinline__ float Widen(float x) { return x; }
__device__ __forceinline__ float Widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float Widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ double Widen(double x) { return x; }

}  // namespace foreshock::cuda
