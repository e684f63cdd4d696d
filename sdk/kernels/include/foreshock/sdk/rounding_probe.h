// How far the attention output and its backward pass are from exact arithmetic, on sampled rows (CPU
// backend). O and dQ are recomputed from q, k, v in double. Not available under attention dropout: do not
// call it then.
//
// noexcept, no allocation, no lock, any thread; two threads may not share a workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "foreshock/sdk/attention_probe.h"
#include "foreshock/sdk/kernel_status.h"
#include "foreshock/sdk/tensor_view.h"

namespace foreshock::kernels {

// A ratio of sums over rows with what its standard error needs. Adding two of them field by field merges
// ranks.
struct RatioSums {
  double num = 0;      // sum of row numerators
  double den = 0;      // sum of row denominators
  double num_num = 0;  // sum of squares, and of products, of the same
  double num_den = 0;
  double den_den = 0;
  double rows = 0;

  // Adds one row.
  void Add(double n, double d) noexcept {
    num += n;
    den += d;
    num_num += n * n;
    num_den += n * d;
    den_den += d * d;
    rows += 1;
  }
  void Merge(const RatioSums& other) noexcept;

  // num / den; missing (false) when no row counted or den is 0.
  bool HasValue() const noexcept { return rows > 0 && !(den == 0); }
  double Value() const noexcept { return num / den; }
  // Standard error of Value() over rows, from the variance of n - Value() d; NaN below 2 rows.
  double StandardError() const noexcept;
};

struct RoundingProblem {
  AttentionProblem attention;  // as the forward pass used it, after RoPE and QK normalization
  TensorView v;                // [batch, k_len, kv_heads, dv]
  TensorView o;                // [batch, q_len, q_heads, dv], as the forward pass stored it
  TensorView d_o;              // gradient of o; data null: delta_* are missing
  TensorView dq;  // gradient of q at the attention's input, before RoPE's backward; data null: delta_error
                  // is missing
};

// Sums of one query head.
struct RoundingHeadStats {
  RatioSums output_bias;  // sum sign(O_ref)(O - O_ref) / sum ulp_bf16(O_ref); entries with O_ref = 0 left out
  RatioSums output_bias_tied;       // the same over rows whose two largest scores differ by <= 1e-3
  RatioSums output_bias_other;      // and over the others (a row with a NaN score is here)
  double output_elements = 0;       // entries in output_bias
  RatioSums delta_output;           // sum dO.(O - O_ref) / sum |dO.O_ref|
  double delta_output_sign = 0;     // sum of the signs of its row terms; divide by delta_output.rows
  RatioSums delta_error;            // sum e_row / sum |delta_ref|
  double delta_error_sign = 0;      // sum of sign(e_row); divide by delta_error.rows
  double delta_error_left_out = 0;  // rows whose ||P K||^2 is below 1e-6 of the head's median, or 0
};

// Bytes that ProbeRounding needs: depends on shapes, and on which gradients are given; 0 for shapes that it
// refuses.
size_t ProbeRoundingWorkspaceBytes(const RoundingProblem& problem) noexcept;

// Fills q_heads entries of `heads`. On any status but kOk nothing is written.
KernelStatus ProbeRounding(const RoundingProblem& problem, RoundingHeadStats* heads,
                           Workspace workspace) noexcept;

}  // namespace foreshock::kernels
