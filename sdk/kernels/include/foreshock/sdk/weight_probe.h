// Spectra of query and key projections, and the growth of weights along frozen directions (CPU backend).
//
// Every call is noexcept, allocates nothing, takes no lock, and may run on any thread; two threads may not
// share a workspace or outputs. The same input gives the same bits on every call, so that ranks that hold the
// same weights derive the same directions.
//
// Not finite: a weight that holds NaN or infinity makes sigma, stable rank, u and v of its head NaN, and
// qk_sigma1 of every query head that uses it; other heads are not touched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "foreshock/sdk/kernel_status.h"
#include "foreshock/sdk/tensor_view.h"

namespace foreshock::kernels {

// Leading singular pairs that are followed.
inline constexpr int kPairs = 3;

// The query and key projections of one layer, or of several: a batch of heads.
struct WeightSet {
  const WeightView* wq = nullptr;
  int32_t n_q = 0;
  const WeightView* wk = nullptr;
  int32_t n_k = 0;                       // 0: no qk_sigma1
  const int32_t* kv_of_query = nullptr;  // n_q entries: the key/value head of each query head; null when n_k
                                         // is 0, or when n_q == n_k and head h uses head h
};

struct HeadSpectrum {
  double sigma[kPairs] = {0, 0,
                          0};    // largest singular values, falling; only the first `pairs` mean something
  double stable_rank = 0;        // ||W||_F^2 / sigma1^2; meaningless when !has_stable_rank
  double frobenius = 0;          // ||W||_F
  int32_t pairs = 0;             // min(3, d_model, d_head): fewer exist in a smaller matrix
  bool has_stable_rank = false;  // false for the zero matrix and the empty one: missing, not NaN
  bool finite = true;            // false: W holds NaN or infinity, all values above are NaN
};

// Where results go. Any pointer may be null: not wanted. Sizes: q and qk_sigma1 n_q, k n_k.
// u and v hold kPairs vectors a head, one after the other: head h's pair i is at
// u[(h * kPairs + i) * d_model] and v[(h * kPairs + i) * d_head], with d_model and d_head the largest of that
// side (all heads of a side share them in most models). Vectors beyond `pairs` are 0. Unit length; each
// pair's sign makes the largest entry of v positive. Of nearly equal singular values the pair is one of the
// many that are right.
struct WeightProbeResult {
  HeadSpectrum* q = nullptr;
  HeadSpectrum* k = nullptr;
  double* qk_sigma1 = nullptr;  // largest singular value of W_Q W_K^T
  float* u_q = nullptr;
  float* v_q = nullptr;
  float* u_k = nullptr;
  float* v_k = nullptr;
};

// Bytes that ProbeWeights needs for these shapes: depends on shapes and counts alone.
size_t ProbeWeightsWorkspaceBytes(const WeightSet& set) noexcept;

// Spectra of every head. Double accumulation; W_Q W_K^T is never formed. O(d_model d_head^2 + d_head^3) a
// head.
KernelStatus ProbeWeights(const WeightSet& set, const WeightProbeResult& result,
                          Workspace workspace) noexcept;

// r_i = u_i^T W v_i for every head and pair: r[h * kPairs + i], n heads. u and v as ProbeWeights lays them
// out, with u_stride and v_stride the vector lengths there (the largest d_model and d_head). Sums in double,
// in an order that depends on shape and strides alone. For a shard of W give a view of the shard and pointers
// into u and v at the shard's first row or column: partial results add up. NaN in W, u or v makes that r NaN.
KernelStatus ProjectPairs(const WeightView* weights, int32_t n, const float* u, int64_t u_stride,
                          const float* v, int64_t v_stride, double* r) noexcept;

// |u_i^T u'_i| * |v_i^T v'_i| for the kPairs pairs of one head, old against new.
void MatchPairs(const float* u_old, const float* u_new, int64_t d_model, const float* v_old,
                const float* v_new, int64_t d_head, double match[kPairs]) noexcept;

// A 64-bit hash of the bits of one head's kPairs pairs: ranks that derived the same directions have the same
// hash.
uint64_t HashPairs(const float* u, int64_t d_model, const float* v, int64_t d_head) noexcept;

// What one optimizer step did to W_Q W_K^T, to first order.
struct UpdateSpectrum {
  double update_norm = 0;     // ||dW_Q||_F
  double entropy = 0;         // of p_i = s_i^2 / sum s^2 over ln(2 d_head): 0 one direction, 1 evenly spread
  double participation = 0;   // (sum s^2)^2 / sum s^4: how many directions share the change
  bool has_spectrum = false;  // false: the change is 0, entropy and participation are missing
};

size_t ProbeUpdateWorkspaceBytes(int64_t d_head) noexcept;

// s_i: singular values of dW_Q W_K^T + W_Q dW_K^T = [dW_Q, W_Q] [W_K, dW_K]^T, found from the two Gram
// matrices of size 2 d_head. All four views have the same d_head and d_model. Not finite input gives NaN.
KernelStatus ProbeUpdate(const WeightView& wq, const WeightView& dwq, const WeightView& wk,
                         const WeightView& dwk, UpdateSpectrum* result, Workspace workspace) noexcept;

}  // namespace foreshock::kernels
