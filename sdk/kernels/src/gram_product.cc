#include "gram_product.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foreshock::kernels {
namespace {

// Returns the rank r; column k < r of L (row-major, n columns wide) is filled, rows in the matrix's own
// order.
int64_t PivotedCholesky(const double* g, int64_t n, double* l, double* diagonal) {
  constexpr double kUsed = -1;
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    diagonal[i] = g[i * n + i];
    largest = std::max(largest, diagonal[i]);
  }
  std::fill(l, l + n * n, 0.0);
  const double negligible = largest * static_cast<double>(n) * std::numeric_limits<double>::epsilon();
  for (int64_t k = 0; k < n; ++k) {
    const int64_t p = std::max_element(diagonal, diagonal + n) - diagonal;
    if (!(diagonal[p] > negligible)) return k;
    const double pivot = std::sqrt(diagonal[p]);
    l[p * n + k] = pivot;
    diagonal[p] = kUsed;
    for (int64_t i = 0; i < n; ++i) {
      if (diagonal[i] == kUsed) continue;
      double value = g[i * n + p];
      for (int64_t j = 0; j < k; ++j) value -= l[i * n + j] * l[p * n + j];
      value /= pivot;
      l[i * n + k] = value;
      diagonal[i] = std::max(0.0, diagonal[i] - value * value);
    }
  }
  return n;
}

}  // namespace

void TridiagonaliseProduct(const double* gram_a, const double* gram_b, int64_t n,
                           const GramProductBuffers& buffers, Tridiagonal* t) {
  const double* l = buffers.factor;
  const int64_t rank = PivotedCholesky(gram_a, n, buffers.factor, buffers.diagonal);
  t->n = rank;
  if (rank == 0) return;
  double* product = buffers.product;
  std::fill(product, product + n * rank, 0.0);
  std::fill(t->a, t->a + rank * rank, 0.0);
  for (int64_t i = 0; i < n; ++i) {
    double* row = product + i * rank;
    for (int64_t j = 0; j < n; ++j) {
      const double g = gram_b[i * n + j];
      for (int64_t k = 0; k < rank; ++k) row[k] += g * l[j * n + k];
    }
    for (int64_t a = 0; a < rank; ++a) {
      const double factor = l[i * n + a];
      for (int64_t b = 0; b < rank; ++b) t->a[a * rank + b] += factor * row[b];
    }
  }
  // Rounding leaves the two halves a little apart.
  for (int64_t a = 0; a < rank; ++a) {
    for (int64_t b = 0; b < a; ++b) t->a[b * rank + a] = t->a[a * rank + b];
  }
  Tridiagonalise(t);
}

}  // namespace foreshock::kernels
