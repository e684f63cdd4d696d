// Eigenvalues of a symmetric matrix by Householder tridiagonalisation and Sturm bisection, leading
// eigenvectors by inverse iteration. Chosen because nothing here can fail to converge: nearly equal, zero and
// repeated eigenvalues are ordinary input. All in double, deterministic.
#pragma once

#include <cstdint>

namespace foreshock::kernels {

// A = Q T Q^T with T tridiagonal. Arrays of n, owned by the caller; `a` keeps the reflectors that make up Q.
struct Tridiagonal {
  double* a = nullptr;  // n x n
  double* diagonal = nullptr;
  double* off = nullptr;  // off[i] couples i and i + 1; off[n - 1] is 0
  double* tau = nullptr;
  double* scratch = nullptr;
  int64_t n = 0;
};

// Overwrites t->a, the full symmetric matrix, and fills the rest.
void Tridiagonalise(Tridiagonal* t);

// values[0..count): the largest eigenvalues, falling, each within a few rounding errors of the largest one's
// size.
void LargestEigenvalues(const Tridiagonal& t, int64_t count, double* values);

// Orthonormal eigenvectors of the `count` largest eigenvalues `values`, one after the other in `vectors`
// (count x n). `work` holds 5 n doubles.
void LeadingEigenvectors(const Tridiagonal& t, int64_t count, const double* values, double* vectors,
                         double* work);

// Removes from x its part along `count` orthonormal vectors and scales it to length 1. Where nothing is left,
// an axis takes its place: the result is always a unit vector (count < n).
void OrthonormaliseAgainst(const double* vectors, int64_t count, int64_t n, double negligible, double* x);

}  // namespace foreshock::kernels
