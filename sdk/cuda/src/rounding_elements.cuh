// What the two row kernels of the rounding probe share.
#pragma once

#include <cstdint>

#include "attention_rows.cuh"
#include "rounding_rows.h"

namespace foreshock::cuda {

// The distance between bf16 neighbours at |value|; as kernels::UlpBf16.
__device__ __forceinline__ double UlpBf16(float value) {
  const uint32_t magnitude = Bits(value) & 0x7fffffffu;
  if (magnitude >= kInfBits) return static_cast<double>(Float(magnitude));
  const int exponent = max(static_cast<int>(magnitude >> 23), 1) - 127 - 7;
  return __longlong_as_double(static_cast<int64_t>(exponent + 1023) << 52);
}

// Adds one element of an output row: O as stored, O recomputed, dO (0 where there is none).
__device__ __forceinline__ void AddOutputElement(double stored, float exact, double gradient,
                                                 RoundingRecord* row) {
  const double error = stored - static_cast<double>(exact);
  row->delta_output += gradient * error;
  row->delta_exact += gradient * static_cast<double>(exact);
  if (exact == 0) return;
  row->output_error += exact < 0 ? -error : error;
  row->output_ulp += UlpBf16(exact);
  ++row->output_elements;
}

// Rows of dense 16-byte vectors of `per_vector` elements.
__host__ __device__ inline bool IsVectorized(const kernels::TensorView& t, int per_vector) {
  const int64_t strides = t.batch_stride | t.seq_stride | t.head_stride | t.dim;
  return t.dim_stride == 1 && strides % per_vector == 0 && reinterpret_cast<uintptr_t>(t.data) % 16 == 0;
}

// Scores are scale * q.k and nothing else.
__host__ __device__ inline bool IsPlain(const AttentionProblem& p) {
  return p.softcap == 0 && p.keep_mask.data == nullptr && p.additive_mask.data == nullptr &&
         p.bias.data == nullptr && p.alibi_slopes == nullptr;
}

}  // namespace foreshock::cuda
