#include "gram.h"

#include <algorithm>
#include <cmath>

#include "load.h"

namespace foreshock::kernels {
namespace {

template <typename T>
double LargestSize(const T* data, const WeightView& w) {
  double largest = 0;
  for (int64_t i = 0; i < w.d_model; ++i) {
    for (int64_t j = 0; j < w.d_head; ++j) {
      const double size = std::abs(static_cast<double>(Widen(data[i * w.row_stride + j * w.col_stride])));
      if (std::isfinite(size)) largest = std::max(largest, size);
    }
  }
  return largest;
}

template <typename T>
void LoadTile(const T* data, const WeightView& w, int64_t first, int64_t rows, double* tile) {
  const int64_t columns = PaddedColumns(w.d_head);
  if (w.row_stride == 1 && w.col_stride != 1) {
    // Walk along memory: down each column.
    for (int64_t j = 0; j < w.d_head; ++j) {
      const T* column = data + first + j * w.col_stride;
      for (int64_t i = 0; i < rows; ++i) tile[i * columns + j] = static_cast<double>(Widen(column[i]));
    }
  } else {
    for (int64_t i = 0; i < rows; ++i) {
      LoadStrided(data + (first + i) * w.row_stride, w.d_head, w.col_stride, tile + i * columns);
    }
  }
  for (int64_t i = 0; i < rows; ++i) std::fill(tile + i * columns + w.d_head, tile + (i + 1) * columns, 0.0);
}

// One 4 x 4 block of A^T B.
void BlockProduct(const double* a, const double* b, int64_t rows, int64_t columns, double (&block)[4][4]) {
  for (auto& row : block) std::fill(row, row + 4, 0.0);
  for (int64_t i = 0; i < rows; ++i) {
    const double* pa = a + i * columns;
    const double* pb = b + i * columns;
    for (int r = 0; r < 4; ++r) {
      for (int c = 0; c < 4; ++c) block[r][c] += pa[r] * pb[c];
    }
  }
}

void MirrorLower(double* g, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) g[j * n + i] = g[i * n + j];
  }
}

}  // namespace

void LoadWeightTile(const WeightView& w, int64_t first, int64_t rows, double factor, double* tile) {
  WithElements(w.data, w.dtype, [&](const auto* data) { LoadTile(data, w, first, rows, tile); });
  if (factor == 1) return;
  for (int64_t i = 0; i < rows * PaddedColumns(w.d_head); ++i) tile[i] *= factor;
}

double SafeFactor(const WeightView& w) {
  // Squares and sums of the narrower types cannot leave double's range.
  if (w.dtype != DType::kFp64) return 1;
  const double largest = LargestSize(static_cast<const double*>(w.data), w);
  if (!(largest > 0)) return 1;
  return std::ldexp(1.0, -std::clamp(std::ilogb(largest), -1020, 1020));
}

void AddTileProduct(const double* a, const double* b, int64_t rows, int64_t n, double* sum, int64_t stride) {
  const int64_t columns = PaddedColumns(n);
  double block[4][4];
  for (int64_t r0 = 0; r0 < n; r0 += 4) {
    // The Gram matrix of one tile is symmetric: its lower blocks are enough.
    const int64_t c_end = a == b ? r0 + 4 : n;
    for (int64_t c0 = 0; c0 < c_end; c0 += 4) {
      BlockProduct(a + r0, b + c0, rows, columns, block);
      for (int64_t r = 0; r < std::min<int64_t>(4, n - r0); ++r) {
        for (int64_t c = 0; c < std::min<int64_t>(4, n - c0); ++c)
          sum[(r0 + r) * stride + c0 + c] += block[r][c];
      }
    }
  }
}

void ComputeGram(const WeightView& w, double* tile, Gram* gram) {
  const int64_t n = w.d_head;
  gram->n = n;
  std::fill(gram->g, gram->g + n * n, 0.0);
  const double factor = SafeFactor(w);
  for (int64_t first = 0; first < w.d_model; first += kGramTileRows) {
    const int64_t rows = std::min(kGramTileRows, w.d_model - first);
    LoadWeightTile(w, first, rows, factor, tile);
    AddTileProduct(tile, tile, rows, n, gram->g, n);
  }
  MirrorLower(gram->g, n);
  gram->trace = 0;
  for (int64_t i = 0; i < n; ++i) gram->trace += gram->g[i * n + i];
  // Squares cannot overflow here, so the trace is finite exactly when every weight is.
  gram->finite = std::isfinite(gram->trace);
  gram->scale = 1 / factor;
  if (!gram->finite || gram->trace == 0) return;
  const int half = std::ilogb(gram->trace) / 2 - (std::ilogb(gram->trace) % 2 < 0 ? 1 : 0);
  const double shrink = std::ldexp(1.0, -2 * half);
  for (int64_t i = 0; i < n * n; ++i) gram->g[i] *= shrink;
  gram->trace *= shrink;
  gram->scale = std::ldexp(gram->scale, half);
}

}  // namespace foreshock::kernels
