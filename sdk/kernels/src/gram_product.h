// The squared singular values of A B^T from the Gram matrices of A and B: the eigenvalues of
// L^T G_B L with G_A = L L^T.
#pragma once

#include <cstdint>

#include "symmetric_eigen.h"

namespace foreshock::kernels {

// Buffers of n x n doubles, owned by the caller. diagonal holds n.
struct GramProductBuffers {
  double* factor = nullptr;   // L
  double* product = nullptr;  // G_B L
  double* diagonal = nullptr;
};

// Fills t->a with L^T G_B L and makes it tridiagonal; t's buffers have room for n. L comes from a Cholesky
// factorisation with pivoting that stops at rounding level, so rank-deficient matrices are fine. t->n becomes
// the numerical rank of G_A, 0 for the zero matrix. Both matrices are finite and of moderate size.
void TridiagonaliseProduct(const double* gram_a, const double* gram_b, int64_t n,
                           const GramProductBuffers& buffers, Tridiagonal* t);

}  // namespace foreshock::kernels
