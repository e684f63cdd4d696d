// The kernels' signals computed the naive way in double: every score is stored, singular values come from
// one-sided Jacobi rotations of the matrix itself. Shares no code with the kernels, so that a common mistake
// cannot hide.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace foreshock::reference {

struct Matrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> at;  // row-major

  Matrix() = default;
  Matrix(int64_t r, int64_t c) : rows(r), cols(c), at(static_cast<size_t>(r * c)) {}
  double& operator()(int64_t i, int64_t j) { return at[static_cast<size_t>(i * cols + j)]; }
  double operator()(int64_t i, int64_t j) const { return at[static_cast<size_t>(i * cols + j)]; }
};

Matrix Multiply(const Matrix& a, const Matrix& b);
Matrix Transpose(const Matrix& a);
Matrix Add(const Matrix& a, const Matrix& b);

// Singular values, falling; min(rows, cols) of them.
std::vector<double> SingularValues(const Matrix& a);

struct Sequence {
  int64_t q_len = 0;
  int64_t k_len = 0;
  // [len][heads][dim], values as the stored type holds them.
  std::vector<double> q, k, v, o, d_o, dq;
};

struct Attention {
  int64_t q_heads = 1;
  int64_t kv_heads = 1;
  int64_t dim = 1;
  int64_t v_dim = 1;
  double scale = 1;
  double softcap = 0;
  std::vector<Sequence> sequences;
  std::vector<std::vector<double>> sinks;  // per query head; empty: none
  std::function<bool(int64_t sequence, int64_t head, int64_t query, int64_t key)> valid;
  std::function<double(int64_t sequence, int64_t head, int64_t query, int64_t key)> bias;
  std::function<bool(int64_t sequence, int64_t query)> visited;
};

struct HeadStats {
  double rows = 0, visited = 0, tied = 0, tied_bf16 = 0, unit_p = 0, saturated = 0;
  double entropy = 0, lse = 0, sink = 0, learned_sink = 0, largest = 0, smallest = 0;
  double gap_margin =
      0;  // how near the nearest row is to any threshold: counts may differ by rounding below this
};

HeadStats AttentionStats(const Attention& a, int64_t head);

struct Ratio {
  double num = 0, den = 0, num_num = 0, num_den = 0, den_den = 0, rows = 0;
};

struct Rounding {
  Ratio output, tied, other, delta_output, delta_error;
  double elements = 0, delta_output_sign = 0, delta_error_sign = 0, left_out = 0;
};

Rounding RoundingStats(const Attention& a, int64_t head);

// Exact output and gradients of one row, for building test data.
struct ExactRow {
  std::vector<double> o, dq, pk;
  double delta = 0;
};
// delta: rowsum(dO * O) to use; NaN: that of the exact output.
ExactRow ExactGradients(const Attention& a, int64_t sequence, int64_t head, int64_t query, double delta);

}  // namespace foreshock::reference
