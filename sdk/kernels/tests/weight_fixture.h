// Weight matrices in any dtype and layout, and what the reference reads back from them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "foreshock/sdk/weight_probe.h"
#include "reference.h"

namespace foreshock::kernels {

enum class Order : uint8_t { kRows, kColumns, kPaddedRows };

// A stored matrix: `exact` holds the values after rounding to the dtype.
class StoredWeight {
 public:
  StoredWeight(const reference::Matrix& m, DType dtype, Order order = Order::kRows) : exact_(m.rows, m.cols) {
    const int64_t pad = order == Order::kPaddedRows ? 3 : 0;
    row_stride_ = order == Order::kColumns ? 1 : m.cols * (pad > 0 ? 2 : 1) + pad;
    col_stride_ = order == Order::kColumns ? m.rows : (pad > 0 ? 2 : 1);
    const int64_t elements =
        m.rows * m.cols == 0 ? 0 : (m.rows - 1) * row_stride_ + (m.cols - 1) * col_stride_ + 1;
    bytes_.assign(static_cast<size_t>(elements) * SizeOf(dtype) + 8,
                  0xff);  // 0xff..: NaN where nobody should look
    dtype_ = dtype;
    for (int64_t i = 0; i < m.rows; ++i) {
      for (int64_t j = 0; j < m.cols; ++j) Set(i, j, m(i, j));
    }
  }

  void Set(int64_t i, int64_t j, double value) {
    const int64_t at = i * row_stride_ + j * col_stride_;
    if (dtype_ == DType::kFp64) {
      reinterpret_cast<double*>(bytes_.data())[at] = value;
    } else {
      StoreFloat(bytes_.data(), dtype_, at, static_cast<float>(value));
    }
    exact_(i, j) = LoadDouble(bytes_.data(), dtype_, at);
  }

  WeightView view() const {
    return {bytes_.data(), dtype_, exact_.rows, exact_.cols, row_stride_, col_stride_};
  }
  const reference::Matrix& exact() const { return exact_; }
  size_t bytes() const { return bytes_.size(); }

 private:
  std::vector<unsigned char> bytes_;
  DType dtype_ = DType::kFp32;
  int64_t row_stride_ = 0;
  int64_t col_stride_ = 0;
  reference::Matrix exact_;
};

inline reference::Matrix RandomMatrix(int64_t rows, int64_t cols, uint64_t seed, double size = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, size);
  reference::Matrix m(rows, cols);
  for (double& x : m.at) x = normal(random);
  return m;
}

// Runs ProbeWeights over one set, with buffers of its own.
struct ProbedWeights {
  std::vector<HeadSpectrum> q, k;
  std::vector<double> qk;
  std::vector<float> u_q, v_q, u_k, v_k;
  KernelStatus status = KernelStatus::kOk;
};

inline ProbedWeights Probe(const std::vector<WeightView>& wq, const std::vector<WeightView>& wk,
                           const std::vector<int32_t>& kv_of_query) {
  ProbedWeights out;
  const auto sized = [](const std::vector<WeightView>& views, bool model) {
    int64_t most = 0;
    for (const WeightView& w : views) most = std::max(most, model ? w.d_model : w.d_head);
    return static_cast<size_t>(most) * views.size() * kPairs;
  };
  out.q.resize(wq.size());
  out.k.resize(wk.size());
  out.qk.assign(wq.size(), -1);
  out.u_q.resize(sized(wq, true));
  out.v_q.resize(sized(wq, false));
  out.u_k.resize(sized(wk, true));
  out.v_k.resize(sized(wk, false));
  WeightSet set{wq.data(), static_cast<int32_t>(wq.size()), wk.data(), static_cast<int32_t>(wk.size()),
                kv_of_query.empty() ? nullptr : kv_of_query.data()};
  std::vector<unsigned char> scratch(ProbeWeightsWorkspaceBytes(set) + 1);
  out.status = ProbeWeights(set,
                            {out.q.data(), out.k.data(), out.qk.data(), out.u_q.data(), out.v_q.data(),
                             out.u_k.data(), out.v_k.data()},
                            {scratch.data() + 1, scratch.size() - 1});
  return out;
}

}  // namespace foreshock::kernels
