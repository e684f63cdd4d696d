// Statistics of attention scores per query head, without keeping the scores (CPU backend).
//
//   S(i, j) = softcap(scale * q_i . k_j) + bias(i, j),  softcap(x) = c tanh(x / c)
//
// A key is masked by causality, window, boolean false, an additive mask <= -1e4 (or -inf), or a bias of -inf.
// Additive mask values above -1e4 are added. A score that overflows to infinity is a value, not a mask.
// Rows with fewer than 2 valid keys count in no signal. A NaN counts only where its entry is valid.
//
// noexcept, no allocation, no lock, any thread; two threads may not share a workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "foreshock/sdk/kernel_status.h"
#include "foreshock/sdk/tensor_view.h"

namespace foreshock::kernels {

// Which rows are visited. Sequence b takes part when b % sequence_every == sequence_offset % sequence_every;
// of the n-th such sequence, row i is visited when i % row_every == (row_offset + n) % row_every. With
// offsets drawn uniformly (SampleOffset) every row of every head has the same chance, so sums over visited
// rows are unbiased.
struct RowSampling {
  int32_t row_every = 1;
  int32_t row_offset = 0;
  int32_t sequence_every = 1;
  int32_t sequence_offset = 0;
};

// A uniform offset in [0, every) from a seed and a step: the same on every rank given the same seed.
constexpr int32_t SampleOffset(uint64_t seed, uint64_t step, int32_t every) {
  uint64_t x = seed ^ (step * 0x9e3779b97f4a7c15u);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return every > 1 ? static_cast<int32_t>((x >> 32) % static_cast<uint32_t>(every)) : 0;
}

// Where query i of a sequence stands among the keys: position i + offset + query_offset, with offset k_len -
// q_len (kBottomRight, as flash attention) or 0 (kTopLeft).
enum class QueryAlign : uint8_t { kBottomRight, kTopLeft };

struct AttentionProblem {
  TensorView q;  // [batch, q_len, q_heads, d]
  TensorView
      k;  // [batch, k_len, kv_heads, d]; q_heads is a multiple of kv_heads, query head h uses h / (q/kv)

  // Packed sequences: n_sequences + 1 rising token offsets into q and k; q and k then have batch 1.
  // Zero-length sequences are fine. Both null: every batch entry is one sequence.
  const int32_t* cu_seqlens_q = nullptr;
  const int32_t* cu_seqlens_k = nullptr;  // null: the same as cu_seqlens_q
  int64_t n_sequences = 0;

  float scale = 1;
  float softcap = 0;  // c; 0: none
  bool causal = false;
  int64_t window_left = -1;   // keys at position >= p - window_left only; -1: no limit
  int64_t window_right = -1;  // keys at position <= p + window_right only; -1: no limit
  QueryAlign align = QueryAlign::kBottomRight;
  int64_t query_offset = 0;

  ScoreView keep_mask;                  // bytes: 0 masks the entry
  ScoreView additive_mask;              // <= -1e4 masks, else added
  ScoreView bias;                       // added; only -inf masks
  const float* alibi_slopes = nullptr;  // q_heads slopes: adds -slope * |position - j|; null: none
  const float* sinks = nullptr;  // learned sinks: n_sinks extra logits a query head, [q_heads, n_sinks]
  int32_t n_sinks = 0;

  RowSampling sampling;
};

// Sums over the rows of one query head. Divide by rows for what users see. rows == 0: everything is missing.
// A row with a NaN among its valid scores makes every field but `rows` and `rows_visited` NaN. A row whose
// largest score is infinite has no probabilities: entropy, saturation and sink weights become NaN; extremes,
// log-sum-exp and the gap counts stay what they are.
struct AttentionHeadStats {
  double rows = 0;                     // rows with at least 2 valid keys: the denominator
  double rows_visited = 0;             // all sampled rows
  double tied_rows = 0;                // two largest scores differ by <= 1e-3
  double tied_rows_bf16 = 0;           // the same after rounding scores to bf16
  double unit_p_rows = 0;              // gap <= -ln(1 - 2^-9)
  double saturated_rows = 0;           // largest probability of a key >= 0.99
  double entropy_sum = 0;              // nats; sinks count as outcomes
  double lse_sum = 0;                  // log-sum-exp, sinks included
  double sink_weight_sum = 0;          // probability on key 0 of the sequence, 0 where it is masked
  double learned_sink_weight_sum = 0;  // probability on all learned sinks together
  double logit_max = 0;                // over valid keys; sinks are no keys
  double logit_min = 0;
};

inline constexpr double kTieGap = 1e-3;
inline constexpr double kUnitPGap = 0.0019550348358033506;  // -ln(1 - 2^-9)
inline constexpr double kSaturatedProbability = 0.99;
inline constexpr double kMaskedBelow = -1e4;

// Bytes that ProbeAttention needs: depends on the shapes of q and k alone; 0 for shapes that it refuses.
size_t ProbeAttentionWorkspaceBytes(const AttentionProblem& problem) noexcept;

// Fills q_heads entries of `heads`. On any status but kOk nothing is written.
KernelStatus ProbeAttention(const AttentionProblem& problem, AttentionHeadStats* heads,
                            Workspace workspace) noexcept;

// Adds `other` into `into`: sums add, extremes combine, NaN wins. A side with rows == 0 adds only
// rows_visited.
void Merge(const AttentionHeadStats& other, AttentionHeadStats* into) noexcept;

}  // namespace foreshock::kernels
