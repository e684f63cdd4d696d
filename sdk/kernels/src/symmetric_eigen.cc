#include "symmetric_eigen.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dot.h"

namespace foreshock::kernels {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

void Axpy(double factor, const double* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

// Turns x into the vector v of H = I - tau v v^T with H x = beta e_1 and v[0] = 1.
double MakeReflector(double* x, int64_t n, double* beta) {
  const double tail = DotInDouble(x + 1, x + 1, n - 1);
  const double alpha = x[0];
  x[0] = 1;
  *beta = alpha;
  if (tail == 0) return 0;
  *beta = -std::copysign(std::sqrt(alpha * alpha + tail), alpha);
  const double scale = 1 / (alpha - *beta);
  for (int64_t i = 1; i < n; ++i) x[i] *= scale;
  return (*beta - alpha) / *beta;
}

// An upper bound of |eigenvalue|.
double Bound(const Tridiagonal& t) {
  double bound = 0;
  for (int64_t i = 0; i < t.n; ++i) {
    const double before = i > 0 ? std::abs(t.off[i - 1]) : 0;
    bound = std::max(bound, std::abs(t.diagonal[i]) + before + std::abs(t.off[i]));
  }
  return bound;
}

// How many eigenvalues are greater than each x. The recurrence is a chain of divisions: several points at
// once cost little more than one.
constexpr int kPoints = 4;

void CountAbove(const Tridiagonal& t, const double (&x)[kPoints], double tiny, int64_t (&above)[kPoints]) {
  double pivot[kPoints];
  double count[kPoints] = {};
  std::fill(pivot, pivot + kPoints, 1.0);
  for (int64_t i = 0; i < t.n; ++i) {
    const double square = i > 0 ? t.off[i - 1] * t.off[i - 1] : 0;
    for (int p = 0; p < kPoints; ++p) {
      const double next = t.diagonal[i] - x[p] - square / pivot[p];
      pivot[p] = std::abs(next) < tiny ? -tiny : next;
      count[p] += pivot[p] > 0 ? 1.0 : 0.0;
    }
  }
  for (int p = 0; p < kPoints; ++p) above[p] = static_cast<int64_t>(count[p]);
}

// T - shift I = P L U by Gaussian elimination with row exchanges; U has two superdiagonals.
struct ShiftedLu {
  double* pivot;
  double* upper1;
  double* upper2;
  double* factor;   // of the row below; its row was exchanged where swapped
  double* swapped;  // 1 or 0
};

void Factorise(const Tridiagonal& t, double shift, double tiny, const ShiftedLu& lu) {
  const int64_t n = t.n;
  double here = n > 0 ? t.diagonal[0] - shift : 0;
  double next = t.off[0];
  for (int64_t i = 0; i + 1 < n; ++i) {
    const double below = t.off[i];
    const double below_diagonal = t.diagonal[i + 1] - shift;
    const double below_next = t.off[i + 1];
    lu.swapped[i] = std::abs(below) > std::abs(here) ? 1 : 0;
    if (lu.swapped[i] != 0) {
      lu.pivot[i] = below;
      lu.upper1[i] = below_diagonal;
      lu.upper2[i] = below_next;
      lu.factor[i] = here / below;
      here = next - lu.factor[i] * below_diagonal;
      next = -lu.factor[i] * below_next;
    } else {
      if (std::abs(here) < tiny) here = tiny;
      lu.pivot[i] = here;
      lu.upper1[i] = next;
      lu.upper2[i] = 0;
      lu.factor[i] = below / here;
      here = below_diagonal - lu.factor[i] * next;
      next = below_next;
    }
  }
  lu.pivot[n - 1] = std::abs(here) < tiny ? tiny : here;
  lu.upper1[n - 1] = lu.upper2[n - 1] = 0;
}

void Solve(const ShiftedLu& lu, int64_t n, double* x) {
  for (int64_t i = 0; i + 1 < n; ++i) {
    if (lu.swapped[i] != 0) std::swap(x[i], x[i + 1]);
    x[i + 1] -= lu.factor[i] * x[i];
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    double value = x[i];
    if (i + 1 < n) value -= lu.upper1[i] * x[i + 1];
    if (i + 2 < n) value -= lu.upper2[i] * x[i + 2];
    x[i] = value / lu.pivot[i];
  }
}

// Scales x so that its largest entry is 1 in size: solutions of nearly singular systems are huge.
void Tame(double* x, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  if (!(largest > 0)) return;
  for (int64_t i = 0; i < n; ++i) x[i] /= largest;
}

// Fixed start vectors without structure that a matrix could be orthogonal to.
void FillStart(int64_t which, int64_t n, double* x) {
  uint64_t state = 0x9e3779b97f4a7c15u * static_cast<uint64_t>(which + 1);
  for (int64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = static_cast<double>(state >> 40) * 0x1p-24 + 0.25;
    if ((state >> 39 & 1) != 0) x[i] = -x[i];
  }
}

// z = H_0 H_1 ... z: from the tridiagonal's basis back to the matrix's.
void ApplyReflectors(const Tridiagonal& t, double* z) {
  for (int64_t k = t.n - 2; k >= 0; --k) {
    if (t.tau[k] == 0) continue;
    const double* v = t.a + k * t.n + k + 1;
    const int64_t m = t.n - k - 1;
    Axpy(-t.tau[k] * DotInDouble(v, z + k + 1, m), v, z + k + 1, m);
  }
}

}  // namespace

void Tridiagonalise(Tridiagonal* t) {
  const int64_t n = t->n;
  for (int64_t k = 0; k + 1 < n; ++k) {
    const int64_t m = n - k - 1;
    double* v = t->a + k * n + k + 1;  // row k right of the diagonal: equal to the column, and out of the way
    t->diagonal[k] = t->a[k * n + k];
    t->tau[k] = MakeReflector(v, m, &t->off[k]);
    if (t->tau[k] == 0) continue;
    double* w = t->scratch;
    std::fill(w, w + m, 0.0);
    for (int64_t i = 0; i < m; ++i) Axpy(v[i] * t->tau[k], t->a + (k + 1 + i) * n + k + 1, w, m);
    Axpy(-0.5 * t->tau[k] * DotInDouble(w, v, m), v, w, m);
    for (int64_t i = 0; i < m; ++i) {
      double* row = t->a + (k + 1 + i) * n + k + 1;
      const double vi = v[i];
      const double wi = w[i];
      for (int64_t j = 0; j < m; ++j) row[j] -= vi * w[j] + wi * v[j];
    }
  }
  if (n > 0) {
    t->diagonal[n - 1] = t->a[n * n - 1];
    t->off[n - 1] = 0;
    t->tau[n - 1] = 0;
  }
}

void LargestEigenvalues(const Tridiagonal& t, int64_t count, double* values) {
  const double bound = Bound(t);
  const double tiny = std::max(kEpsilon * kEpsilon * bound, std::numeric_limits<double>::min());
  double ceiling = bound;
  for (int64_t k = 0; k < count; ++k) {
    double low = -bound;
    double high = ceiling;
    // The k-th largest is above `low` as long as more than k eigenvalues are.
    while (high - low > 2 * kEpsilon * bound) {
      double x[kPoints];
      int64_t above[kPoints];
      const double part = (high - low) / (kPoints + 1);
      for (int p = 0; p < kPoints; ++p) x[p] = low + part * (p + 1);
      if (x[0] <= low || x[kPoints - 1] >= high) break;
      CountAbove(t, x, tiny, above);
      int below = 0;  // points under the eigenvalue
      while (below < kPoints && above[below] > k) ++below;
      if (below > 0) low = x[below - 1];
      if (below < kPoints) high = x[below];
    }
    values[k] = low + (high - low) / 2;
    ceiling = high;
  }
}

void OrthonormaliseAgainst(const double* vectors, int64_t count, int64_t n, double negligible, double* x) {
  for (int64_t axis = -1; axis < n; ++axis) {
    if (axis >= 0) {
      std::fill(x, x + n, 0.0);
      x[axis] = 1;
    }
    const double least = axis < 0 ? negligible : 0.5 / static_cast<double>(n);
    // Twice: once leaves the rounding of a large part that was taken away.
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t k = 0; k < count; ++k) Axpy(-DotInDouble(vectors + k * n, x, n), vectors + k * n, x, n);
    }
    const double norm = std::sqrt(DotInDouble(x, x, n));
    if (!(norm > least)) continue;
    for (int64_t i = 0; i < n; ++i) x[i] /= norm;
    for (int64_t k = 0; k < count; ++k) Axpy(-DotInDouble(vectors + k * n, x, n), vectors + k * n, x, n);
    return;
  }
}

void LeadingEigenvectors(const Tridiagonal& t, int64_t count, const double* values, double* vectors,
                         double* work) {
  const int64_t n = t.n;
  const double tiny = std::max(kEpsilon * Bound(t), std::numeric_limits<double>::min());
  const ShiftedLu lu{work, work + n, work + 2 * n, work + 3 * n, work + 4 * n};
  for (int64_t k = 0; k < count; ++k) {
    double* x = vectors + k * n;
    FillStart(k, n, x);
    Factorise(t, values[k], tiny, lu);
    for (int round = 0; round < 3; ++round) {
      Solve(lu, n, x);
      Tame(x, n);
      OrthonormaliseAgainst(vectors, k, n, kEpsilon * static_cast<double>(n), x);
    }
  }
  for (int64_t k = 0; k < count; ++k) ApplyReflectors(t, vectors + k * n);
  for (int64_t k = 0; k < count; ++k) OrthonormaliseAgainst(vectors, k, n, 0.5, vectors + k * n);
}

}  // namespace foreshock::kernels
