// What the two row kernels of the rounding probe share: what one element of O or dQ, next to its value in
// fp32, adds to its row's record. An element's error is in units of the last place of bf16, signed away from
// zero; sums are double. Both kernels (rounding_rows.cu, rounding_mma.cu) call these with the same operands,
// so they differ only in how the products are summed.
#pragma once

#include <cstdint>

#include "attention_scores.cuh"
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

// Sums over the kLanes neighbouring threads that share a row.
template <int kLanes, typename T>
__device__ __forceinline__ T RowSum(T x) {
#pragma unroll
  for (int lane = kLanes / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(kWarp, x, lane);
  return x;
}

// The rows of a tile that a thread works on, and the keys that they see.
template <int kOwn>
struct OwnRows {
  int row[kOwn];         // in the sequence
  KeyBounds keys[kOwn];  // none beyond the tile's end
  KeyBounds all;         // that any row of the tile sees
  int kv_head;

  // row_of(i): the place in the tile of the thread's row i.
  template <typename RowOf>
  __device__ OwnRows(const AttentionProblem& a, const Tile& tile, RowOf&& row_of)
      : all(KeysOfRows(a, tile, 0, tile.rows)), kv_head(tile.head / static_cast<int>(a.q.heads / a.k.heads)) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      row[i] = tile.first_row + row_of(i) * a.sampling.row_every;
      keys[i] = row_of(i) < tile.rows ? KeysOf(a, tile, row[i]) : KeyBounds{};
    }
  }
};

// A thread's share of a row's scores, then, of all of them, what the row's probabilities are made of.
struct RowScores {
  float largest = -INFINITY;
  float second = -INFINITY;
  double sum = 0;  // of e^(s - largest)
  int count = 0;
  bool nan = false;

  __device__ __forceinline__ void See(float s) {
    ++count;
    nan |= isnan(s);
    second = fmaxf(second, fminf(largest, s));
    largest = fmaxf(largest, s);
  }
  // After a tile whose scores raised `largest` from `before` and add `add` to the sum.
  __device__ __forceinline__ void Add(float before, float add) {
    if (before != largest) sum *= static_cast<double>(expf(before - largest));
    sum += static_cast<double>(add);
  }
};
struct RowSoftmax {
  int count;
  bool tied;
  float top;      // the largest score, learned sinks included
  float inverse;  // 1 / sum of e^(s - top), learned sinks included
};

template <int kLanes>
__device__ __forceinline__ RowSoftmax Combine(const AttentionProblem& a, int head, RowScores s) {
  const float mine = s.largest;
#pragma unroll
  for (int lane = kLanes / 2; lane > 0; lane /= 2) {
    const float other = __shfl_xor_sync(kWarp, s.largest, lane);
    const float other_second = __shfl_xor_sync(kWarp, s.second, lane);
    s.second = fmaxf(fmaxf(s.second, other_second), fminf(s.largest, other));
    s.largest = fmaxf(s.largest, other);
  }
  const bool nan = RowSum<kLanes>(static_cast<int>(s.nan)) > 0;
  RowSoftmax out;
  out.count = RowSum<kLanes>(s.count);
  out.tied = !nan && s.largest - s.second <= static_cast<float>(kernels::kTieGap);
  const float* sinks = a.n_sinks == 0 ? nullptr : a.sinks + int64_t{head} * a.n_sinks;
  out.top = s.largest;
  for (int n = 0; n < a.n_sinks; ++n) out.top = fmaxf(out.top, sinks[n]);
  // A thread that met no key has largest = -infinity and sum = 0.
  const double drop = static_cast<double>(mine) - static_cast<double>(out.top);
  double sum = RowSum<kLanes>(s.sum > 0 || isnan(s.sum) ? s.sum * exp(drop) : 0.0);
  for (int n = 0; n < a.n_sinks; ++n) sum += static_cast<double>(expf(sinks[n] - out.top));
  out.inverse = static_cast<float>(1 / sum);
  return out;
}

// One element of a tensor.
__device__ __forceinline__ double Stored(const kernels::TensorView& t, int64_t row, int64_t d) {
  return static_cast<double>(LoadAny(t.data, t.dtype, row + d * t.dim_stride));
}

// delta in two parts, because it is a sum of its own and dP - delta may cancel.
struct SplitDelta {
  float high, low;
  __device__ __forceinline__ explicit SplitDelta(double delta)
      : high(static_cast<float>(delta)), low(static_cast<float>(delta - static_cast<double>(high))) {}
  __device__ __forceinline__ float TakenFrom(float dp) const { return (dp - high) - low; }
};

// From a row's sums over this thread's elements: adds up the kLanes shares.
template <int kLanes>
__device__ __forceinline__ RoundingRecord Finished(RoundingRecord mine, double norm2, double delta,
                                                   float scale) {
  RoundingRecord out = mine;
  out.output_error = RowSum<kLanes>(mine.output_error);
  out.output_ulp = RowSum<kLanes>(mine.output_ulp);
  out.output_elements = RowSum<kLanes>(mine.output_elements);
  out.delta_output = RowSum<kLanes>(mine.delta_output);
  out.delta_exact = RowSum<kLanes>(mine.delta_exact);
  out.delta_ref = delta;
  const double along = RowSum<kLanes>(mine.delta_error);
  const double all = RowSum<kLanes>(norm2);
  out.key_norm2 = static_cast<float>(all);
  out.delta_error = -along / (static_cast<double>(scale) * all);
  return out;
}

}  // namespace foreshock::cuda
