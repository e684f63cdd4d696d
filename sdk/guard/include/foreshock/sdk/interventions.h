// What a trainer can do to queries, keys and updates: helpers without state, for CPU tensors.
#pragma once

#include <cstdint>

#include "foreshock/base/result.h"
#include "foreshock/sdk/tensor_view.h"

namespace foreshock::sdk {

inline constexpr double kQkNormEpsilon = 1e-6;

// y = x / sqrt(mean(x^2) + epsilon) per token and head. y's memory is written; it may be x's.
// kInvalidArgument for shapes that differ, null data or a dtype that is not bf16, fp16 or fp32.
Status QkNormForward(const kernels::TensorView& x, const kernels::TensorView& y);
// dx = (dy - y mean(dy y)) / sqrt(mean(x^2) + epsilon). dx's memory is written; it may be dy's.
Status QkNormBackward(const kernels::TensorView& x, const kernels::TensorView& dy,
                      const kernels::TensorView& dx);

// sqrt(min(1, limit / logit_max)): the factor for q and k each that brings logit_max down to limit. 1 for
// logits that are NaN or not above 0, and for a limit that is not above 0.
float QkClipFactor(double logit_max, double limit);

// dW -= sum_i u_i (u_i^T dW v_i) v_i^T over the leading pairs, each against the update as it was given. dW(i,
// j) = delta[i * row_stride + j * col_stride]; u and v hold kPairs vectors of d_model and d_head. Sums in
// double.
void ProjectOut(float* delta, int64_t row_stride, int64_t col_stride, int64_t d_model, int64_t d_head,
                const float* u, const float* v) noexcept;

}  // namespace foreshock::sdk
