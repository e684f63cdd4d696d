#include <algorithm>
#include <cmath>
#include <limits>

#include "arena.h"
#include "foreshock/sdk/weight_probe.h"
#include "gram.h"
#include "gram_product.h"
#include "weight_checks.h"

namespace foreshock::kernels {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Buffers {
  double* gram_q = nullptr;  // of [dW_Q, W_Q], 2n x 2n
  double* gram_k = nullptr;  // of [W_K, dW_K]
  double* left = nullptr;    // tiles
  double* right = nullptr;
  double* eigenvalues = nullptr;
  GramProductBuffers product;
  Tridiagonal tridiagonal;
};

Buffers Layout(Arena* arena, int64_t d_head) {
  const int64_t n = 2 * d_head;
  Buffers b;
  b.gram_q = arena->Take<double>(n * n);
  b.gram_k = arena->Take<double>(n * n);
  b.left = arena->Take<double>(GramTileElements(d_head));
  b.right = arena->Take<double>(GramTileElements(d_head));
  b.eigenvalues = arena->Take<double>(n);
  b.product.factor = arena->Take<double>(n * n);
  b.product.product = arena->Take<double>(n * n);
  b.product.diagonal = arena->Take<double>(n);
  b.tridiagonal.a = arena->Take<double>(n * n);
  b.tridiagonal.diagonal = arena->Take<double>(n);
  b.tridiagonal.off = arena->Take<double>(n);
  b.tridiagonal.tau = arena->Take<double>(n);
  b.tridiagonal.scratch = arena->Take<double>(n);
  return b;
}

// The largest power of two not above the largest size in W; 1 for the zero matrix. Not finite: *finite =
// false.
double Magnitude(const WeightView& w, double* tile, bool* finite) {
  double largest = 0;
  for (int64_t first = 0; first < w.d_model; first += kGramTileRows) {
    const int64_t rows = std::min(kGramTileRows, w.d_model - first);
    LoadWeightTile(w, first, rows, 1, tile);
    for (int64_t i = 0; i < rows * PaddedColumns(w.d_head); ++i) {
      if (!std::isfinite(tile[i])) *finite = false;
      largest = std::max(largest, std::abs(tile[i]));
    }
  }
  return *finite && largest > 0 ? std::ldexp(1.0, std::clamp(std::ilogb(largest), -1000, 1000)) : 1;
}

// Gram matrix of [A fa, B fb].
void GramOfPair(const WeightView& a, double fa, const WeightView& b, double fb, const Buffers& buffers,
                double* gram) {
  const int64_t n = a.d_head;
  const int64_t stride = 2 * n;
  std::fill(gram, gram + stride * stride, 0.0);
  for (int64_t first = 0; first < a.d_model; first += kGramTileRows) {
    const int64_t rows = std::min(kGramTileRows, a.d_model - first);
    LoadWeightTile(a, first, rows, fa, buffers.left);
    LoadWeightTile(b, first, rows, fb, buffers.right);
    AddTileProduct(buffers.left, buffers.left, rows, n, gram, stride);
    AddTileProduct(buffers.right, buffers.left, rows, n, gram + n * stride, stride);
    AddTileProduct(buffers.right, buffers.right, rows, n, gram + n * stride + n, stride);
  }
  for (int64_t i = 0; i < stride; ++i) {
    for (int64_t j = 0; j < i; ++j) gram[j * stride + i] = gram[i * stride + j];
  }
}

double FrobeniusNorm(const WeightView& w, double magnitude, double* tile) {
  double sum = 0;
  for (int64_t first = 0; first < w.d_model; first += kGramTileRows) {
    const int64_t rows = std::min(kGramTileRows, w.d_model - first);
    LoadWeightTile(w, first, rows, 1 / magnitude, tile);
    for (int64_t i = 0; i < rows * PaddedColumns(w.d_head); ++i) sum += tile[i] * tile[i];
  }
  return std::sqrt(sum) * magnitude;
}

// Entropy and participation of the eigenvalues s^2.
void Summarise(const double* squares, int64_t count, int64_t d_head, UpdateSpectrum* result) {
  double sum = 0;
  double sum_of_squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += std::max(squares[i], 0.0);
    sum_of_squares += squares[i] * squares[i];
  }
  result->has_spectrum = sum > 0;
  if (!result->has_spectrum) return;
  double entropy = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double p = squares[i] / sum;
    if (p > 0) entropy -= p * std::log(p);
  }
  result->entropy = entropy / std::log(2.0 * static_cast<double>(d_head));
  result->participation = sum / sum_of_squares * sum;
}

KernelStatus Check(const WeightView& wq, const WeightView& dwq, const WeightView& wk, const WeightView& dwk) {
  const WeightView* views[] = {&wq, &dwq, &wk, &dwk};
  for (const WeightView* w : views) {
    const KernelStatus status = CheckWeight(*w);
    if (status != KernelStatus::kOk) return status;
    if (w->d_head != wq.d_head) return KernelStatus::kBadShape;
  }
  const bool same = dwq.d_model == wq.d_model && dwk.d_model == wk.d_model;
  return same ? KernelStatus::kOk : KernelStatus::kBadShape;
}

}  // namespace

size_t ProbeUpdateWorkspaceBytes(int64_t d_head) noexcept {
  if (d_head < 0 || d_head > kMaxHead) return 0;
  Arena arena;
  Layout(&arena, d_head);
  return arena.BytesNeeded();
}

KernelStatus ProbeUpdate(const WeightView& wq, const WeightView& dwq, const WeightView& wk,
                         const WeightView& dwk, UpdateSpectrum* result, Workspace workspace) noexcept {
  const KernelStatus status = Check(wq, dwq, wk, dwk);
  if (status != KernelStatus::kOk) return status;
  if (result == nullptr) return KernelStatus::kNullPointer;
  Arena arena(workspace);
  Buffers b = Layout(&arena, wq.d_head);
  if (!arena.Fits()) return KernelStatus::kWorkspaceTooSmall;
  *result = UpdateSpectrum{};

  bool dwq_finite = true;
  bool others_finite = true;
  const double size_dwq = Magnitude(dwq, b.left, &dwq_finite);
  const double size_q = Magnitude(wq, b.left, &others_finite);
  const double size_k = Magnitude(wk, b.left, &others_finite);
  const double size_dwk = Magnitude(dwk, b.left, &others_finite);
  result->update_norm = dwq_finite ? FrobeniusNorm(dwq, size_dwq, b.left) : kNaN;
  if (!dwq_finite || !others_finite) {
    result->entropy = result->participation = kNaN;
    result->has_spectrum = true;
    return KernelStatus::kOk;
  }

  // The spectrum's shape does not change with a common factor. Each block is brought to its own size, and the
  // two products to their ratio, so that a change of 1e-6 of a weight does not drown in the weight's
  // rounding:
  //   dW_Q W_K^T + W_Q dW_K^T ~ [dW_Q', W_Q'] [a W_K', c dW_K']^T with a : c = |dW_Q| |W_K| : |W_Q| |dW_K|.
  const double log_ratio = std::log2(size_q) + std::log2(size_dwk) - std::log2(size_dwq) - std::log2(size_k);
  const double a = log_ratio > 0 ? std::exp2(std::max(-log_ratio, -1000.0)) : 1;
  const double c = log_ratio < 0 ? std::exp2(std::max(log_ratio, -1000.0)) : 1;
  GramOfPair(dwq, 1 / size_dwq, wq, 1 / size_q, b, b.gram_q);
  GramOfPair(wk, a / size_k, dwk, c / size_dwk, b, b.gram_k);
  TridiagonaliseProduct(b.gram_q, b.gram_k, 2 * wq.d_head, b.product, &b.tridiagonal);
  LargestEigenvalues(b.tridiagonal, b.tridiagonal.n, b.eigenvalues);
  Summarise(b.eigenvalues, b.tridiagonal.n, wq.d_head, result);
  return KernelStatus::kOk;
}

}  // namespace foreshock::kernels
