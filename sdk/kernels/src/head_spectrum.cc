#include "head_spectrum.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dot.h"

namespace foreshock::kernels {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// left[i] = W v_i for `pairs` vectors, in units of gram.scale.
void LeftVectors(const WeightView& w, const Gram& gram, int32_t pairs, const SpectrumBuffers& buffers) {
  const int64_t columns = PaddedColumns(w.d_head);
  // Two factors: 1 / scale alone may leave double's range where the scale is extreme.
  const double safe = SafeFactor(w);
  const double rest = 1 / (gram.scale * safe);
  for (int64_t first = 0; first < w.d_model; first += kGramTileRows) {
    const int64_t rows = std::min(kGramTileRows, w.d_model - first);
    LoadWeightTile(w, first, rows, safe, buffers.tile);
    for (int32_t p = 0; p < pairs; ++p) {
      const double* v = buffers.vectors + p * w.d_head;
      for (int64_t i = 0; i < rows; ++i) {
        const double* row = buffers.tile + i * columns;
        buffers.left[p * w.d_model + first + i] = DotInDouble(row, v, w.d_head) * rest;
      }
    }
  }
}

double Norm(const double* x, int64_t n) { return std::sqrt(DotInDouble(x, x, n)); }

void Write(const double* from, double sign, int64_t n, int64_t stride, float* to) {
  if (to == nullptr) return;
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(sign * from[i]);
  std::fill(to + n, to + stride, 0.0f);
}

// Makes the sign of a pair a function of the matrix alone.
double SignOf(const double* v, int64_t n) {
  int64_t largest = 0;
  for (int64_t i = 1; i < n; ++i) {
    if (std::abs(v[i]) > std::abs(v[largest])) largest = i;
  }
  return n > 0 && v[largest] < 0 ? -1 : 1;
}

void FillPairs(const PairsOut& out, float value) {
  if (out.u != nullptr) std::fill(out.u, out.u + kPairs * out.u_stride, value);
  if (out.v != nullptr) std::fill(out.v, out.v + kPairs * out.v_stride, value);
}

HeadSpectrum NotFinite(int32_t pairs) {
  HeadSpectrum s;
  std::fill(s.sigma, s.sigma + kPairs, kNaN);
  s.stable_rank = s.frobenius = kNaN;
  s.pairs = pairs;
  s.has_stable_rank = true;
  s.finite = false;
  return s;
}

}  // namespace

HeadSpectrum ComputeSpectrum(const WeightView& w, const Gram& gram, const SpectrumBuffers& buffers,
                             const PairsOut& out) {
  const auto pairs = static_cast<int32_t>(std::min({int64_t{kPairs}, w.d_model, w.d_head}));
  if (!gram.finite) {
    FillPairs(out, std::numeric_limits<float>::quiet_NaN());
    return NotFinite(pairs);
  }
  FillPairs(out, 0);
  HeadSpectrum s;
  s.pairs = pairs;
  if (pairs == 0) return s;

  Tridiagonal t = buffers.tridiagonal;
  t.n = w.d_head;
  std::copy(gram.g, gram.g + t.n * t.n, t.a);
  Tridiagonalise(&t);
  double lambda[kPairs] = {0, 0, 0};
  LargestEigenvalues(t, pairs, lambda);
  LeadingEigenvectors(t, pairs, lambda, buffers.vectors, buffers.work);
  LeftVectors(w, gram, pairs, buffers);

  double sigma[kPairs] = {0, 0, 0};
  for (int32_t i = 0; i < pairs; ++i) {
    double* left = buffers.left + i * w.d_model;
    const double* v = buffers.vectors + i * w.d_head;
    // ||W v|| keeps small singular values that sqrt(lambda) would lose in the rounding of the Gram matrix.
    sigma[i] = Norm(left, w.d_model);
    if (i > 0) sigma[i] = std::min(sigma[i], sigma[i - 1]);
    OrthonormaliseAgainst(buffers.left, i, w.d_model, 1e-12 * sigma[0], left);
    const double sign = SignOf(v, w.d_head);
    Write(v, sign, w.d_head, out.v_stride, out.v == nullptr ? nullptr : out.v + i * out.v_stride);
    Write(left, sign, w.d_model, out.u_stride, out.u == nullptr ? nullptr : out.u + i * out.u_stride);
    s.sigma[i] = sigma[i] * gram.scale;
  }
  s.frobenius = std::sqrt(gram.trace) * gram.scale;
  s.has_stable_rank = sigma[0] > 0;
  if (s.has_stable_rank) s.stable_rank = gram.trace / (sigma[0] * sigma[0]);
  return s;
}

}  // namespace foreshock::kernels
