#pragma once

#include <algorithm>
#include <cstddef>

#include "foreshock/trainer/kernels.h"
#include "foreshock/trainer/shape.h"

namespace foreshock::trainer {

inline constexpr float kRmsEpsilon = 1e-5f;  // added to the mean square in every RMS norm

// Floats that linear and linear_backward need as workspace for any layer of this shape.
inline std::size_t linear_workspace(const ModelShape& shape) {
  return 16 * static_cast<std::size_t>(
                  std::max({shape.tokens(), shape.mlp_width(), shape.vocabulary, shape.qkv_width()}));
}

// y [rows, outer] = x [rows, inner] w [inner, outer], or y +=.
inline void linear(const Kernels& kernels, const float* x, int rows, int inner, const float* w, int outer,
                   float* y, bool add, float* pack) {
  kernels.multiply({rows, outer, inner, x, inner, 1, w, outer, 1, y, outer, add, pack});
}

// dx = dy w^T; dw += x^T dy.
inline void linear_backward(const Kernels& kernels, const float* x, int rows, int inner, const float* w,
                            int outer, const float* dy, float* dx, float* dw, float* pack) {
  kernels.multiply({rows, inner, outer, dy, outer, 1, w, 1, outer, dx, inner, false, pack});
  kernels.multiply({inner, outer, rows, x, 1, inner, dy, outer, 1, dw, outer, true, pack});
}

}  // namespace foreshock::trainer
