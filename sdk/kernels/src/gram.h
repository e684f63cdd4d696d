// Gram matrices W^T W in double, kept in a range in which no later product can overflow.
#pragma once

#include <cstdint>

#include "foreshock/sdk/tensor_view.h"

namespace foreshock::kernels {

// Rows of W converted at a time.
inline constexpr int64_t kGramTileRows = 64;

// Columns are padded with zeros to a multiple of this.
inline constexpr int64_t kGramPad = 4;
constexpr int64_t PaddedColumns(int64_t n) { return (n + kGramPad - 1) / kGramPad * kGramPad; }
constexpr int64_t GramTileElements(int64_t n) { return kGramTileRows * PaddedColumns(n); }

struct Gram {
  double* g = nullptr;  // n x n, symmetric: W^T W = g * scale^2
  double scale = 1;     // a power of two that brings the trace of g into [1, 4); 1 for the zero matrix
  double trace = 0;     // of g
  int64_t n = 0;
  bool finite = true;  // false: W holds NaN or infinity; g is not to be used
};

// Loads rows [first, first + rows) of W times `factor` into a tile of PaddedColumns(d_head) columns.
void LoadWeightTile(const WeightView& w, int64_t first, int64_t rows, double factor, double* tile);

// The power of two by which fp64 weights are multiplied so that their squares stay in range; 1 for other
// dtypes.
double SafeFactor(const WeightView& w);

// Fills g (n * n doubles given in gram->g). `tile` holds GramTileElements(d_head) doubles.
void ComputeGram(const WeightView& w, double* tile, Gram* gram);

// sum += A^T B over one tile: A and B have `rows` rows of n columns, PaddedColumns(n) apart. sum is n x n
// with rows `stride` apart.
void AddTileProduct(const double* a, const double* b, int64_t rows, int64_t n, double* sum, int64_t stride);

}  // namespace foreshock::kernels
