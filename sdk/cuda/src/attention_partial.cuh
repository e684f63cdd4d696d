// From finished rows to per-head results: each warp adds up its 16 rows, FinishHeads adds up the warps in a
// fixed order.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "attention_rows.cuh"
#include "attention_walk.cuh"
#include "foreshock/sdk/attention_probe.h"

namespace foreshock::cuda {

// Sums over the rows of one warp. A count is NaN when one of its rows cannot be judged.
struct WarpPartial {
  double entropy;
  double lse;
  double sink;
  double learned_sink;
  float rows;
  float visited;
  float tied;
  float tied_bf16;
  float unit_p;
  float saturated;
  float largest;
  float smallest;
};

// Of no rows.
__device__ inline WarpPartial NoRows() {
  WarpPartial none{};
  none.largest = -INFINITY;
  none.smallest = INFINITY;
  return none;
}

// What one row adds, in the order of AttentionHeadStats; see there for NaN and infinity.
struct RowResult {
  float entropy = 0;
  float lse = 0;
  float sink = 0;
  float learned_sink = 0;
  float gap = 0;       // NaN: cannot be judged
  float gap_bf16 = 0;  // the same
  float largest = 0;
  float smallest = 0;
  bool undefined = false;  // no probabilities
  bool saturated = false;
};

template <typename Units>
__device__ __forceinline__ RowResult FinishRow(const RowSummary& s, bool has_first_key, const float* sinks,
                                               int n_sinks) {
  RowResult out;
  const float nan = NAN;
  const float ref = s.ref;  // in y's units, as the scores
  float largest = s.best == kMaskedBits ? -INFINITY : (ref + Float(s.best)) * Units::kToNats;
  float second = s.second == kMaskedBits ? -INFINITY : (ref + Float(s.second)) * Units::kToNats;
  out.gap = s.second == kMaskedBits ? largest - second : (Float(s.best) - Float(s.second)) * Units::kToNats;
  if (s.high_infs > 0) {
    second = s.high_infs > 1 ? INFINITY : largest;
    largest = INFINITY;
    out.gap = largest - second;
  }
  out.gap_bf16 =
      __bfloat162float(__float2bfloat16_rn(largest)) - __bfloat162float(__float2bfloat16_rn(second));
  if (s.has_nan) out.gap = out.gap_bf16 = nan;
  out.largest = s.has_nan ? nan : largest;
  out.smallest = s.has_nan               ? nan
                 : s.has_low_inf         ? -INFINITY
                 : s.lowest == kNoLowest ? INFINITY
                                         : (ref + Float(s.lowest)) * Units::kToNats;

  // Everything is taken relative to `base`: ref, or a learned sink above it.
  const float ref_nats = ref * Units::kToNats;
  float base = ref_nats;
  float top = largest;
  for (int i = 0; i < n_sinks; ++i) {
    const float x = sinks[i];
    if (x > top || isnan(x)) top = x;
    if (isnan(top)) break;
  }
  out.undefined = s.has_nan || !isfinite(top);
  if (out.undefined) {
    out.lse = s.has_nan ? nan : top;
    out.entropy = out.sink = out.learned_sink = nan;
    return out;
  }
  base = fmaxf(base, top);
  const float drop = ref_nats - base;
  const float factor = drop == 0 ? 1 : expf(drop);
  float sum = s.sum * factor;
  float weighted = factor == 0 ? 0 : factor * (s.weighted * Units::kToNats + drop * s.sum);
  float sink_sum = 0;
  for (int i = 0; i < n_sinks; ++i) {
    const float x = sinks[i] - base;
    const float e = expf(x);
    sink_sum += e;
    if (e > 0) weighted += e * x;
  }
  sum += sink_sum;
  const float log_sum = logf(sum);
  out.lse = base + log_sum;
  out.entropy = log_sum - weighted / sum;
  out.saturated = s.best != kMaskedBits && expf(largest - base) / sum >= 0.99f;
  out.sink = has_first_key ? expf(s.first_key * Units::kToNats - base) / sum : 0;
  out.learned_sink = sink_sum / sum;
  return out;
}

__device__ __forceinline__ double WarpSum(double x) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(kWarp, x, lane);
  return x;
}

// A count over the warp's rows, NaN where one cannot be judged.
__device__ __forceinline__ float WarpCount(bool counts, bool unknown) {
  const unsigned yes = __ballot_sync(kWarp, counts);
  const bool bad = __any_sync(kWarp, unknown);
  return bad ? NAN : static_cast<float>(__popc(yes));
}

// Largest over the warp; NaN wins.
__device__ __forceinline__ float WarpMax(float x) {
  const bool nan = __any_sync(kWarp, isnan(x));
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(kWarp, x, lane));
  return nan ? NAN : x;
}

// Field by field, so that neither is put into memory.
__device__ __forceinline__ RowSummary Choose(bool first, const RowSummary& a, const RowSummary& b) {
  return {first ? a.ref : b.ref,
          first ? a.sum : b.sum,
          first ? a.weighted : b.weighted,
          first ? a.best : b.best,
          first ? a.second : b.second,
          first ? a.lowest : b.lowest,
          first ? a.first_key : b.first_key,
          first ? a.count : b.count,
          first ? a.has_nan : b.has_nan,
          first ? a.has_low_inf : b.has_low_inf,
          first ? a.high_infs : b.high_infs};
}

// What a lane goes on with: lane 0 of a quad takes its first row, lane 1 the second; the others' are not
// used.
template <int kColumns>
__device__ __forceinline__ RowSummary SummaryOfLane(const Row<kColumns> (&rows)[2]) {
  const RowSummary first = Summarize(rows[0]);
  const RowSummary other = Summarize(rows[1]);
  return Choose(threadIdx.x % 4 == 0, first, other);
}

// Adds up the warp's 16 rows; `row` is the warp's first row of the tile's `tile_rows`, `mine` is from
// SummaryOfLane. keys[r] and has_first_key[r] belong to this thread's two rows.
template <typename Units>
__device__ __forceinline__ void FinishWarp(const AttentionProblem& p, int head, int tile_rows, int row,
                                           const RowSummary& mine, const int (&keys)[2],
                                           const bool (&has_first_key)[2], WarpPartial* out) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int r = lane % 4;
  const int count = r == 0 ? keys[0] : keys[1];
  const bool visited = r < 2 && row + lane / 4 + 8 * r < tile_rows;
  const bool counts = visited && count >= 2;
  RowResult x;
  if (counts) {
    x = FinishRow<Units>(mine, r == 0 ? has_first_key[0] : has_first_key[1],
                         p.n_sinks > 0 ? p.sinks + int64_t{head} * p.n_sinks : nullptr, p.n_sinks);
  }
  constexpr float kTie = 1e-3f;
  constexpr float kUnitP = 0.0019550348358033506f;
  WarpPartial sum;
  sum.entropy = WarpSum(x.entropy);
  sum.lse = WarpSum(x.lse);
  sum.sink = WarpSum(x.sink);
  sum.learned_sink = p.n_sinks > 0 ? WarpSum(x.learned_sink) : 0;
  sum.rows = WarpCount(counts, false);
  sum.visited = WarpCount(visited, false);
  sum.tied = WarpCount(counts && x.gap <= kTie, isnan(x.gap));
  sum.tied_bf16 = WarpCount(counts && x.gap_bf16 <= kTie, isnan(x.gap_bf16));
  sum.unit_p = WarpCount(counts && x.gap <= kUnitP, isnan(x.gap));
  sum.saturated = WarpCount(x.saturated, x.undefined);
  sum.largest = WarpMax(counts ? x.largest : -INFINITY);
  sum.smallest = -WarpMax(counts ? -x.smallest : -INFINITY);
  if (lane == 0) *out = sum;
}

}  // namespace foreshock::cuda
