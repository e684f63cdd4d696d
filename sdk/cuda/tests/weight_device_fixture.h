// Heads on the device beside their exact values, and a probe over them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device_support.h"
#include "foreshock/sdk/cuda/weight_probe.h"
#include "weight_fixture.h"

namespace foreshock::cuda {

using kernels::DType;
using kernels::kPairs;
using kernels::Order;
using kernels::RandomMatrix;
using kernels::StoredWeight;
using reference::Matrix;

// A head in device memory.
class DeviceWeight {
 public:
  explicit DeviceWeight(StoredWeight host, size_t shift = 0)
      : host_(std::move(host)), bytes_(host_.view().data, host_.bytes(), shift) {}
  DeviceWeight(const Matrix& m, DType dtype, Order order = Order::kRows, size_t shift = 0)
      : DeviceWeight(StoredWeight(m, dtype, order), shift) {}

  StoredWeight& host() { return host_; }
  const Matrix& exact() const { return host_.exact(); }
  void Send() { bytes_.Write(host_.view().data); }
  kernels::WeightView view() const {
    kernels::WeightView view = host_.view();
    view.data = bytes_.data();
    return view;
  }

 private:
  StoredWeight host_;
  DeviceBytes bytes_;
};

// A probe and a host copy of its results.
struct Probed {
  std::unique_ptr<WeightProbe> probe;
  std::vector<unsigned char> bytes;

  Probed(const std::vector<kernels::WeightView>& views, const std::vector<QkPair>& pairs = {},
         double weight_decay = 0) {
    std::vector<DeviceHead> heads;
    for (const auto& view : views) heads.push_back({view, weight_decay});
    auto made = WeightProbe::Make(0, heads, pairs);
    if (!made.ok()) throw std::runtime_error(made.status().message());
    probe = std::move(made).value();
    bytes.resize(probe->HostBytes());
  }
  DeviceResults Read() {
    const Status status = probe->ReadOut(nullptr, bytes.data());
    EXPECT_TRUE(status.ok()) << status.message();
    Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return probe->ResultsIn(bytes.data());
  }
  DeviceResults Spectra() {
    const Status status = probe->Spectra(nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
    return Read();
  }
  std::vector<float> U(int head, int64_t d_model, bool next = true) {
    return FromDevice(probe->u(head, next), static_cast<size_t>(kPairs * d_model));
  }
  std::vector<float> V(int head, int64_t d_head, bool next = true) {
    return FromDevice(probe->v(head, next), static_cast<size_t>(kPairs * d_head));
  }
};

// The accuracy that DESIGN promises, against singular values of the stored matrix.
inline void ExpectSpectrum(const DeviceSpectrum& got, const Matrix& w) {
  const std::vector<double> sigma = reference::SingularValues(w);
  ASSERT_EQ(got.pairs, std::min<int64_t>({3, w.rows, w.cols}));
  EXPECT_EQ(got.finite, 1);
  double square = 0;
  for (const double s : sigma) square += s * s;
  for (int i = 0; i < got.pairs; ++i) {
    const double relative = sigma[static_cast<size_t>(i)] >= 0.01 * sigma[0] ? 1e-5 : 1e-3;
    const double error = std::abs(got.sigma[i] - sigma[static_cast<size_t>(i)]);
    EXPECT_TRUE(error <= relative * sigma[0]) << "sigma " << i << ": " << got.sigma[i] << ", want "
                                              << sigma[static_cast<size_t>(i)] << ", rounds " << got.rounds;
  }
  EXPECT_EQ(got.has_stable_rank, sigma[0] > 0);
  if (sigma[0] > 0) {
    EXPECT_TRUE(std::abs(got.stable_rank - square / (sigma[0] * sigma[0])) <= 1e-4 * got.stable_rank);
    EXPECT_TRUE(std::abs(got.frobenius - std::sqrt(square)) <= 1e-5 * got.frobenius);
  }
}

// Pairs are unit vectors that reach sigma_i and are orthogonal to each other.
inline void ExpectPairs(const DeviceSpectrum& s, const Matrix& w, const std::vector<float>& u,
                        const std::vector<float>& v) {
  for (int i = 0; i < s.pairs; ++i) {
    double r = 0;
    for (int64_t a = 0; a < w.rows; ++a) {
      for (int64_t b = 0; b < w.cols; ++b) {
        r += double{u[static_cast<size_t>(i * w.rows + a)]} * w(a, b) *
             double{v[static_cast<size_t>(i * w.cols + b)]};
      }
    }
    EXPECT_TRUE(std::abs(r - s.sigma[i]) <= 1e-5 * s.sigma[0])
        << "pair " << i << " reaches " << r << " of " << s.sigma[i];
    for (int j = 0; j <= i; ++j) {
      double uu = 0, vv = 0;
      for (int64_t a = 0; a < w.rows; ++a)
        uu += double{u[static_cast<size_t>(i * w.rows + a)]} * double{u[static_cast<size_t>(j * w.rows + a)]};
      for (int64_t b = 0; b < w.cols; ++b)
        vv += double{v[static_cast<size_t>(i * w.cols + b)]} * double{v[static_cast<size_t>(j * w.cols + b)]};
      EXPECT_TRUE(std::abs(uu - (i == j)) <= 1e-5) << "u " << i << " " << j << ": " << uu;
      EXPECT_TRUE(std::abs(vv - (i == j)) <= 1e-5) << "v " << i << " " << j << ": " << vv;
    }
  }
}

inline void ExpectHead(const DeviceWeight& w) {
  Probed probed({w.view()});
  const DeviceResults got = probed.Spectra();
  ExpectSpectrum(got.spectra[0], w.exact());
  ExpectPairs(got.spectra[0], w.exact(), probed.U(0, w.exact().rows), probed.V(0, w.exact().cols));
}

inline void ExpectQk(double got, const Matrix& wq, const Matrix& wk) {
  const double product = reference::SingularValues(wq)[0] * reference::SingularValues(wk)[0];
  const double want = reference::SingularValues(reference::Multiply(wq, reference::Transpose(wk)))[0];
  EXPECT_TRUE(std::abs(got - want) <= (want >= 0.01 * product ? 1e-5 : 1e-3) * product)
      << got << ", want " << want;
}

}  // namespace foreshock::cuda
