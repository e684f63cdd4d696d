// Spectra on the device against the float64 reference.
#include <cmath>
#include <limits>
#include <tuple>

#include "weight_device_fixture.h"

namespace foreshock::cuda {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class WeightShapes : public ::testing::TestWithParam<std::tuple<DType, Order>> {};

TEST_P(WeightShapes, MatchTheReference) {
  FS_NEEDS_DEVICE();
  const auto [dtype, order] = GetParam();
  const std::pair<int64_t, int64_t> shapes[] = {
      {1, 1},   {1, 16},  {16, 1},   {2, 3},    {31, 31},  {32, 32},   {33, 33},   {64, 16},  {63, 31},
      {65, 33}, {20, 32}, {129, 64}, {200, 80}, {257, 64}, {300, 128}, {192, 127}, {300, 129}};
  for (const auto& [rows, cols] : shapes) {
    SCOPED_TRACE(testing::Message() << rows << " x " << cols);
    ExpectHead(
        DeviceWeight(RandomMatrix(rows, cols, static_cast<uint64_t>(7 * rows + cols), 0.02), dtype, order));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, WeightShapes,
    ::testing::Combine(::testing::Values(DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp64),
                       ::testing::Values(Order::kRows, Order::kColumns, Order::kPaddedRows)));

TEST(WeightSpectra, LargeHeads) {
  FS_NEEDS_DEVICE();
  for (const DType dtype : {DType::kBf16, DType::kFp32}) {
    for (const Order order : {Order::kRows, Order::kColumns}) {
      ExpectHead(DeviceWeight(RandomMatrix(1100, 128, 5, 0.02), dtype, order));
      ExpectHead(DeviceWeight(RandomMatrix(640, 256, 6, 0.02), dtype, order));
    }
  }
}

TEST(WeightSpectra, MisalignedMemory) {
  FS_NEEDS_DEVICE();
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
    for (const Order order : {Order::kRows, Order::kColumns}) {
      ExpectHead(DeviceWeight(RandomMatrix(130, 64, 9), dtype, order, kernels::SizeOf(dtype)));
    }
  }
}

// Lines so far apart that the head's elements lie up to 2^31 and more behind its first.
TEST(WeightSpectra, MoreThanTwoToThe31Elements) {
  FS_NEEDS_DEVICE();
  constexpr int64_t kRows = 130, kColumns = 64;
  size_t free_bytes = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  if (free_bytes < (size_t{6} << 30)) GTEST_SKIP() << "needs 6 GiB of device memory";
  for (const Order order : {Order::kRows, Order::kColumns}) {
    const StoredWeight near(RandomMatrix(kRows, kColumns, 31), DType::kBf16, order);
    const bool head_major = near.view().col_stride == 1;
    const int64_t lines = head_major ? kRows : kColumns, length = head_major ? kColumns : kRows;
    const int64_t near_stride = head_major ? near.view().row_stride : near.view().col_stride;
    const int64_t stride = ((int64_t{1} << 31) / (lines - 1) / 8 + 2) * 8;
    void* far = nullptr;
    ASSERT_EQ(cudaMalloc(&far, static_cast<size_t>(lines * stride) * 2), cudaSuccess);
    ASSERT_EQ(cudaMemcpy2D(far, static_cast<size_t>(stride) * 2, near.view().data,
                           static_cast<size_t>(near_stride) * 2, static_cast<size_t>(length) * 2,
                           static_cast<size_t>(lines), cudaMemcpyHostToDevice),
              cudaSuccess);
    kernels::WeightView view = near.view();
    view.data = far;
    (head_major ? view.row_stride : view.col_stride) = stride;
    {
      Probed probed({view, view}, {{0, 1}});
      const DeviceResults got = probed.Spectra();
      ExpectSpectrum(got.spectra[1], near.exact());
      ExpectPairs(got.spectra[1], near.exact(), probed.U(1, kRows), probed.V(1, kColumns));
      ExpectQk(got.qk_sigma1[0], near.exact(), near.exact());
    }
    ASSERT_EQ(cudaFree(far), cudaSuccess);
  }
}

// W = U diag(sigma) V^T with random orthonormal U, V.
Matrix WithSpectrum(int64_t rows, int64_t cols, const std::vector<double>& sigma, uint64_t seed) {
  const auto orthonormal = [&](int64_t n, uint64_t s) {
    Matrix m = RandomMatrix(static_cast<int64_t>(sigma.size()), n, s);
    for (int64_t i = 0; i < m.rows; ++i) {
      for (int pass = 0; pass < 2; ++pass) {
        for (int64_t j = 0; j < i; ++j) {
          double dot = 0;
          for (int64_t k = 0; k < n; ++k) dot += m(i, k) * m(j, k);
          for (int64_t k = 0; k < n; ++k) m(i, k) -= dot * m(j, k);
        }
      }
      double square = 0;
      for (int64_t k = 0; k < n; ++k) square += m(i, k) * m(i, k);
      for (int64_t k = 0; k < n; ++k) m(i, k) /= std::sqrt(square);
    }
    return m;
  };
  const Matrix u = orthonormal(rows, seed), v = orthonormal(cols, seed + 1);
  Matrix w(rows, cols);
  for (size_t s = 0; s < sigma.size(); ++s) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j)
        w(i, j) += sigma[s] * u(static_cast<int64_t>(s), i) * v(static_cast<int64_t>(s), j);
    }
  }
  return w;
}

TEST(WeightSpectra, HardSpectra) {
  FS_NEEDS_DEVICE();
  const std::vector<std::vector<double>> spectra = {
      {1},                                         // rank 1
      {1, 1e-3},                                   // rank 2
      {1, 1, 1, 1},                                // equal
      {1, 1 - 1e-6, 1 - 2e-6, 1 - 3e-6, 0.5},      // nearly equal
      {1, 1 - 1e-4, 1 - 2e-4, 0.9999 - 2e-4, .9},  // the same, wider
      {1, 0.02, 0.011, 0.0101, 0.01},              // one far ahead
      {1, 1e-4, 1e-6, 1e-7},
      {1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1},
      std::vector<double>(64, 1.0),  // orthonormal columns
  };
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp64}) {
    for (size_t s = 0; s < spectra.size(); ++s) {
      SCOPED_TRACE(testing::Message() << "spectrum " << s << " dtype " << static_cast<int>(dtype));
      ExpectHead(DeviceWeight(WithSpectrum(192, 64, spectra[s], 40 + s), dtype));
    }
  }
}

TEST(WeightSpectra, ZeroConstantHugeAndTiny) {
  FS_NEEDS_DEVICE();
  ExpectHead(DeviceWeight(Matrix(96, 64), DType::kFp32));
  ExpectHead(DeviceWeight(Matrix(96, 64), DType::kBf16));
  Matrix constant(200, 64);
  for (double& x : constant.at) x = 0.7;
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16})
    ExpectHead(DeviceWeight(constant, dtype));
  for (const double size : {1e37, 1e25, 1e-20, 1e-36}) {
    SCOPED_TRACE(size);
    ExpectHead(DeviceWeight(RandomMatrix(150, 64, 3, size), DType::kFp32));
    ExpectHead(DeviceWeight(RandomMatrix(150, 64, 4, size), DType::kBf16));
  }
  for (const double size : {1e60, 1e-60})
    ExpectHead(DeviceWeight(RandomMatrix(70, 32, 3, size), DType::kFp64));
}

TEST(WeightSpectra, NotFiniteStaysWithItsHead) {
  FS_NEEDS_DEVICE();
  for (const double bad : {kNaN, kInfinity, -kInfinity}) {
    for (const int64_t at : {0, 75 * 64 + 31, 150 * 64 - 1}) {
      for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
        std::vector<std::unique_ptr<DeviceWeight>> heads;
        std::vector<kernels::WeightView> views;
        for (int h = 0; h < 4; ++h) {
          StoredWeight w(RandomMatrix(150, 64, static_cast<uint64_t>(h)), dtype);
          if (h == 1) w.Set(at / 64, at % 64, bad);
          heads.push_back(std::make_unique<DeviceWeight>(std::move(w)));
          views.push_back(heads.back()->view());
        }
        Probed probed(views, {{0, 2}, {1, 3}, {0, 3}, {2, 1}});
        const DeviceResults got = probed.Spectra();
        EXPECT_EQ(got.spectra[1].finite, 0);
        for (const double s : got.spectra[1].sigma) EXPECT_TRUE(std::isnan(s));
        EXPECT_TRUE(std::isnan(got.spectra[1].stable_rank));
        EXPECT_TRUE(std::isnan(probed.U(1, 150)[0]) && std::isnan(probed.V(1, 64)[63]));
        for (const int h : {0, 2, 3}) {
          EXPECT_EQ(got.spectra[h].finite, 1);
          EXPECT_GT(got.spectra[h].sigma[0], 0);
        }
        EXPECT_GT(got.qk_sigma1[0], 0);
        EXPECT_TRUE(std::isnan(got.qk_sigma1[1]) && std::isnan(got.qk_sigma1[3]));
        EXPECT_GT(got.qk_sigma1[2], 0);
        // And it recovers.
        heads[1]->host().Set(at / 64, at % 64, 0.5);
        heads[1]->Send();
        ExpectSpectrum(probed.Spectra().spectra[1], heads[1]->exact());
      }
    }
  }
}

TEST(WeightSpectra, QkMatchesTheReference) {
  FS_NEEDS_DEVICE();
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp64}) {
    for (const int64_t d_head : {1, 16, 32, 64, 80, 128}) {
      SCOPED_TRACE(d_head);
      const DeviceWeight q(RandomMatrix(150, d_head, 1), dtype), k(RandomMatrix(130, d_head, 2), dtype),
          q2(RandomMatrix(150, d_head, 3, 1e-3), dtype);
      Probed probed({q.view(), k.view(), q2.view()}, {{0, 1}, {2, 1}});  // two query heads share a key head
      const DeviceResults got = probed.Spectra();
      ExpectQk(got.qk_sigma1[0], q.exact(), k.exact());
      ExpectQk(got.qk_sigma1[1], q2.exact(), k.exact());
    }
  }
}

// Leading directions that do not meet: qk_sigma1 is far below the product of the norms.
TEST(WeightSpectra, QkOfUnalignedHeads) {
  FS_NEEDS_DEVICE();
  for (const double least : {0.02, 0.1}) {
    Matrix q(200, 64), k(200, 64);
    const Matrix noise_q = RandomMatrix(200, 64, 1), noise_k = RandomMatrix(200, 64, 2);
    for (int64_t i = 0; i < 200; ++i) {
      for (int64_t j = 0; j < 64; ++j) {
        q(i, j) = noise_q(i, j) * (j < 32 ? 1 : least);
        k(i, j) = noise_k(i, j) * (j < 32 ? least : 1);
      }
    }
    for (const DType dtype : {DType::kFp32, DType::kBf16}) {
      const DeviceWeight dq(q, dtype), dk(k, dtype);
      Probed probed({dq.view(), dk.view()}, {{0, 1}});
      ExpectQk(probed.Spectra().qk_sigma1[0], dq.exact(), dk.exact());
    }
  }
}

TEST(WeightSpectra, MixedModelInOneSet) {
  FS_NEEDS_DEVICE();
  std::vector<std::unique_ptr<DeviceWeight>> heads;
  std::vector<kernels::WeightView> views;
  uint64_t seed = 1;
  for (const DType dtype : {DType::kBf16, DType::kFp32, DType::kFp16, DType::kFp64}) {
    for (const int64_t d_head : {16, 64, 96, 200}) {
      for (const Order order : {Order::kRows, Order::kColumns}) {
        heads.push_back(std::make_unique<DeviceWeight>(RandomMatrix(220, d_head, seed++), dtype, order));
        views.push_back(heads.back()->view());
      }
    }
  }
  Probed probed(views);
  for (int round = 0; round < 2; ++round) {  // cold and warm
    const DeviceResults got = probed.Spectra();
    for (size_t h = 0; h < heads.size(); ++h) {
      SCOPED_TRACE(testing::Message() << "head " << h << " round " << round);
      ExpectSpectrum(got.spectra[h], heads[h]->exact());
      ExpectPairs(got.spectra[h], heads[h]->exact(), probed.U(static_cast<int>(h), 220),
                  probed.V(static_cast<int>(h), heads[h]->exact().cols));
    }
  }
}

// The same pairs, up to what rounding may turn, as the CPU backend.
TEST(WeightSpectra, EqualsTheCpuBackend) {
  FS_NEEDS_DEVICE();
  const StoredWeight host(RandomMatrix(256, 64, 11), DType::kFp32);
  const kernels::ProbedWeights cpu = kernels::Probe({host.view()}, {}, {});
  const DeviceWeight w(host);
  Probed probed({w.view()});
  const DeviceResults got = probed.Spectra();
  double match[kPairs];
  const auto u = probed.U(0, 256), v = probed.V(0, 64);
  kernels::MatchPairs(cpu.u_q.data(), u.data(), 256, cpu.v_q.data(), v.data(), 64, match);
  for (int i = 0; i < kPairs; ++i) {
    EXPECT_NEAR(got.spectra[0].sigma[i], cpu.q[0].sigma[i], 1e-5 * cpu.q[0].sigma[0]);
    EXPECT_GT(match[i], 0.999);
    double dot = 0;
    for (int k = 0; k < 64; ++k)
      dot += double{v[static_cast<size_t>(i * 64 + k)]} * cpu.v_q[static_cast<size_t>(i * 64 + k)];
    EXPECT_GT(dot, 0) << "the sign rule is the same";
  }
  EXPECT_NEAR(got.spectra[0].stable_rank, cpu.q[0].stable_rank, 1e-4 * cpu.q[0].stable_rank);
}

TEST(WeightSpectra, RefusesWhatItCannotMeasure) {
  FS_NEEDS_DEVICE();
  kernels::WeightView view{reinterpret_cast<const void*>(16), DType::kFp32, 64, 257, 257, 1};
  EXPECT_FALSE(WeightProbe::Make(0, {{view, 0}}, {}).ok());
  view.d_head = 64;
  view.d_model = 0;  // a head without rows has no spectrum
  const auto without_rows = WeightProbe::Make(0, {{view, 0}}, {});
  ASSERT_FALSE(without_rows.ok());
  EXPECT_EQ(without_rows.status().message(), "head 0: model_dim: 0, must be 1 to 16777216");
  view.d_model = 64;
  view.data = nullptr;
  EXPECT_FALSE(WeightProbe::Make(0, {{view, 0}}, {}).ok());
  EXPECT_TRUE(WeightProbe::Make(0, {}, {}).ok());  // no heads: nothing to do
}

}  // namespace
}  // namespace foreshock::cuda
