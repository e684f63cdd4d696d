#include "foreshock/sdk/weight_probe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "weight_fixture.h"

namespace foreshock::kernels {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The accuracy that docs/signals.md promises, against the reference on the stored values.
void ExpectSpectrum(const HeadSpectrum& got, const reference::Matrix& w) {
  const std::vector<double> sigma = reference::SingularValues(w);
  ASSERT_EQ(got.pairs, std::min<int64_t>({3, w.rows, w.cols}));
  EXPECT_TRUE(got.finite);
  for (int i = 0; i < got.pairs; ++i) {
    const double relative = sigma[i] >= 0.01 * sigma[0] ? 1e-5 : 1e-3;
    EXPECT_LE(std::abs(got.sigma[i] - sigma[i]), relative * sigma[0]) << "sigma " << i;
    if (i > 0) {
      EXPECT_LE(got.sigma[i], got.sigma[i - 1]);
    }
  }
  double square = 0;
  for (double s : sigma) square += s * s;
  if (sigma[0] > 0) {
    EXPECT_TRUE(got.has_stable_rank);
    EXPECT_LE(std::abs(got.stable_rank - square / (sigma[0] * sigma[0])), 1e-4 * got.stable_rank);
  }
}

// Pairs are unit vectors that reach sigma_i and are orthogonal to each other.
void ExpectPairs(const HeadSpectrum& s, const reference::Matrix& w, const float* u, const float* v,
                 int64_t d_model, int64_t d_head) {
  for (int i = 0; i < s.pairs; ++i) {
    const float* ui = u + i * d_model;
    const float* vi = v + i * d_head;
    double r = 0;
    for (int64_t a = 0; a < w.rows; ++a) {
      for (int64_t b = 0; b < w.cols; ++b) r += double{ui[a]} * w(a, b) * double{vi[b]};
    }
    EXPECT_LE(std::abs(r - s.sigma[i]), 1e-5 * s.sigma[0]) << "pair " << i;
    for (int j = 0; j <= i; ++j) {
      double uu = 0, vv = 0;
      for (int64_t a = 0; a < w.rows; ++a) uu += double{ui[a]} * double{u[j * d_model + a]};
      for (int64_t b = 0; b < w.cols; ++b) vv += double{vi[b]} * double{v[j * d_head + b]};
      EXPECT_LE(std::abs(uu - (i == j)), 1e-5) << i << " " << j;
      EXPECT_LE(std::abs(vv - (i == j)), 1e-5) << i << " " << j;
    }
  }
}

void ExpectHead(const StoredWeight& w) {
  const ProbedWeights got = Probe({w.view()}, {}, {});
  ASSERT_EQ(got.status, KernelStatus::kOk);
  ExpectSpectrum(got.q[0], w.exact());
  ExpectPairs(got.q[0], w.exact(), got.u_q.data(), got.v_q.data(), w.exact().rows, w.exact().cols);
}

// sqrt of the largest eigenvalue against the product formed in full.
void ExpectQk(double got, const reference::Matrix& wq, const reference::Matrix& wk) {
  const double product = reference::SingularValues(wq)[0] * reference::SingularValues(wk)[0];
  const double want = reference::SingularValues(reference::Multiply(wq, reference::Transpose(wk)))[0];
  EXPECT_LE(std::abs(got - want), (want >= 0.01 * product ? 1e-5 : 1e-3) * product) << "want " << want;
}

class WeightShapes : public ::testing::TestWithParam<std::tuple<DType, Order>> {};

TEST_P(WeightShapes, MatchesTheReference) {
  const auto [dtype, order] = GetParam();
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1},   {1, 16},  {16, 1},  {2, 3},    {64, 16}, {63, 31},
                                                {65, 33}, {32, 32}, {20, 32}, {129, 64}, {200, 80}};
  for (const auto& [rows, cols] : shapes) {
    SCOPED_TRACE(testing::Message() << rows << " x " << cols);
    ExpectHead(StoredWeight(RandomMatrix(rows, cols, 7 * rows + cols, 0.02), dtype, order));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, WeightShapes,
    ::testing::Combine(::testing::Values(DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp64),
                       ::testing::Values(Order::kRows, Order::kColumns, Order::kPaddedRows)));

TEST(WeightProbe, LargestHeads) {
  for (int64_t d_head : {128, 256}) ExpectHead(StoredWeight(RandomMatrix(160, d_head, d_head), DType::kBf16));
}

TEST(WeightProbe, EmptyMatricesHaveNoPairs) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{0, 16}, {16, 0}, {0, 0}}) {
    const StoredWeight w(reference::Matrix(rows, cols), DType::kFp32);
    const ProbedWeights got = Probe({w.view()}, {w.view()}, {});
    ASSERT_EQ(got.status, KernelStatus::kOk);
    EXPECT_EQ(got.q[0].pairs, 0);
    EXPECT_FALSE(got.q[0].has_stable_rank);
    EXPECT_EQ(got.qk[0], 0);
  }
}

TEST(WeightProbe, TheZeroMatrixHasSigmaZeroAndNoStableRank) {
  const StoredWeight w(reference::Matrix(64, 16), DType::kBf16);
  const ProbedWeights got = Probe({w.view()}, {w.view()}, {});
  ExpectHead(w);
  EXPECT_EQ(got.q[0].sigma[0], 0);
  EXPECT_FALSE(got.q[0].has_stable_rank);
  EXPECT_TRUE(got.q[0].finite);
  EXPECT_EQ(got.qk[0], 0);
}

TEST(WeightProbe, RankOne) {
  reference::Matrix m(64, 16);
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t j = 0; j < 16; ++j) m(i, j) = std::sin(1.0 + double(i)) * std::cos(double(j));
  }
  const StoredWeight w(m, DType::kFp64);
  ExpectHead(w);
  const ProbedWeights got = Probe({w.view()}, {w.view()}, {});
  EXPECT_NEAR(got.q[0].stable_rank, 1, 1e-9);
  EXPECT_NEAR(got.qk[0] / (got.q[0].sigma[0] * got.q[0].sigma[0]), 1, 1e-9);
}

TEST(WeightProbe, EqualAndNearlyEqualLeadingValues) {
  for (double apart : {0.0, 1e-14, 1e-10, 1e-6, 1e-3}) {
    SCOPED_TRACE(apart);
    reference::Matrix m(40, 24);
    // A diagonal with equal leading values, turned by a reflection on each side.
    reference::Matrix left(40, 40), right(24, 24);
    for (auto* reflection : {&left, &right}) {
      const int64_t n = reflection->rows;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) (*reflection)(i, j) = (i == j) - 2.0 / double(n);
      }
    }
    for (int64_t i = 0; i < 24; ++i) m(i, i) = i < 5 ? 1 - apart * double(i) : 0.5;
    const reference::Matrix w = reference::Multiply(reference::Multiply(left, m), right);
    ExpectHead(StoredWeight(w, DType::kFp64));
    ExpectHead(StoredWeight(m, DType::kFp64));
    ExpectHead(StoredWeight(w, DType::kBf16));
  }
}

TEST(WeightProbe, HugeAndTinyValues) {
  ExpectHead(StoredWeight(RandomMatrix(64, 16, 1, 1e30), DType::kFp32));
  ExpectHead(StoredWeight(RandomMatrix(64, 16, 2, 1e-30), DType::kFp32));
  ExpectHead(StoredWeight(RandomMatrix(64, 16, 3, 1e30), DType::kBf16));
  ExpectHead(StoredWeight(RandomMatrix(64, 16, 4, 1e-39), DType::kBf16));
  ExpectHead(StoredWeight(RandomMatrix(64, 16, 5, 1e4), DType::kFp16));
  for (double size : {1e200, 1e-200}) {
    const reference::Matrix unit = RandomMatrix(64, 16, 6, 1);
    reference::Matrix m = unit;
    for (double& x : m.at) x *= size;
    const StoredWeight w(m, DType::kFp64);
    const ProbedWeights got = Probe({w.view()}, {}, {});
    const std::vector<double> sigma = reference::SingularValues(unit);
    for (int i = 0; i < 3; ++i) EXPECT_LE(std::abs(got.q[0].sigma[i] / size - sigma[i]), 1e-9 * sigma[0]);
  }
}

TEST(WeightProbe, SmallSingularValuesBesideALargeOne) {
  for (double small : {0.02, 1e-3, 1e-5, 1e-9}) {
    SCOPED_TRACE(small);
    reference::Matrix m = RandomMatrix(64, 16, 11, small / 8);
    for (int64_t i = 0; i < 64; ++i) {
      for (int64_t j = 0; j < 16; ++j) m(i, j) += 1.0 / 32;
    }
    ExpectHead(StoredWeight(m, DType::kFp32));
  }
}

TEST(WeightProbe, QkSigma1OfGroupedHeads) {
  std::vector<StoredWeight> wq, wk;
  for (int h = 0; h < 6; ++h) wq.emplace_back(RandomMatrix(64, 16, 100 + h, 0.1 * (h + 1)), DType::kBf16);
  for (int h = 0; h < 2; ++h)
    wk.emplace_back(RandomMatrix(64, 16, 200 + h, 0.3), DType::kBf16, Order::kColumns);
  std::vector<WeightView> q, k;
  for (auto& w : wq) q.push_back(w.view());
  for (auto& w : wk) k.push_back(w.view());
  const std::vector<int32_t> kv = {0, 0, 0, 1, 1, 1};
  const ProbedWeights got = Probe(q, k, kv);
  ASSERT_EQ(got.status, KernelStatus::kOk);
  for (size_t h = 0; h < wq.size(); ++h) {
    ExpectSpectrum(got.q[h], wq[h].exact());
    ExpectPairs(got.q[h], wq[h].exact(), &got.u_q[h * 3 * 64], &got.v_q[h * 3 * 16], 64, 16);
    ExpectQk(got.qk[h], wq[h].exact(), wk[static_cast<size_t>(kv[h])].exact());
  }
  for (size_t h = 0; h < wk.size(); ++h) {
    ExpectSpectrum(got.k[h], wk[h].exact());
    ExpectPairs(got.k[h], wk[h].exact(), &got.u_k[h * 3 * 64], &got.v_k[h * 3 * 16], 64, 16);
  }
}

TEST(WeightProbe, QkSigma1WhereTheSidesHardlyMeet) {
  // W_Q and W_K use different columns of the head, up to a little: the product is far below its bound.
  for (double overlap : {1e-1, 1e-3, 1e-5, 0.0}) {
    reference::Matrix a = RandomMatrix(64, 16, 31), b = RandomMatrix(64, 16, 32);
    for (int64_t i = 0; i < 64; ++i) {
      for (int64_t j = 0; j < 16; ++j) (j < 8 ? b(i, j) : a(i, j)) *= overlap;
    }
    const StoredWeight wq(a, DType::kFp64), wk(b, DType::kFp64);
    const ProbedWeights got = Probe({wq.view()}, {wk.view()}, {});
    ExpectQk(got.qk[0], wq.exact(), wk.exact());
  }
}

// N7: the head is reported, the others are not touched, nothing fails.
TEST(WeightProbe, NotFiniteWeightsBelongToTheirHead) {
  for (double bad : {kNaN, double{INFINITY}, -double{INFINITY}}) {
    for (const auto& [i, j] : {std::pair<int64_t, int64_t>{0, 0}, {31, 7}, {63, 15}}) {
      std::vector<StoredWeight> w;
      for (int h = 0; h < 3; ++h) w.emplace_back(RandomMatrix(64, 16, 40 + h), DType::kBf16);
      w[1].Set(i, j, bad);
      const std::vector<WeightView> views = {w[0].view(), w[1].view(), w[2].view()};
      const ProbedWeights got = Probe(views, views, {});
      ASSERT_EQ(got.status, KernelStatus::kOk);
      EXPECT_FALSE(got.q[1].finite);
      EXPECT_TRUE(std::isnan(got.q[1].sigma[0]) && std::isnan(got.q[1].sigma[2]));
      EXPECT_TRUE(std::isnan(got.q[1].stable_rank) && std::isnan(got.qk[1]));
      EXPECT_TRUE(std::isnan(got.u_q[3 * 64]) && std::isnan(got.v_q[3 * 16 * 2 - 1]));
      for (size_t h : {0, 2}) {
        ExpectSpectrum(got.q[h], w[h].exact());
        ExpectQk(got.qk[h], w[h].exact(), w[h].exact());
      }
    }
  }
}

TEST(WeightProbe, ANanKeyHeadReachesTheQueryHeadsThatUseIt) {
  StoredWeight q(RandomMatrix(64, 16, 1), DType::kFp32), good(RandomMatrix(64, 16, 2), DType::kFp32),
      bad = good;
  bad.Set(5, 5, kNaN);
  const ProbedWeights got = Probe({q.view(), q.view()}, {good.view(), bad.view()}, {});
  EXPECT_TRUE(std::isfinite(got.qk[0]));
  EXPECT_TRUE(std::isnan(got.qk[1]));
  EXPECT_TRUE(got.q[1].finite);
}

TEST(WeightProbe, TheSameInputGivesTheSameBits) {
  const StoredWeight w(RandomMatrix(96, 32, 5), DType::kBf16);
  const ProbedWeights a = Probe({w.view()}, {w.view()}, {}), b = Probe({w.view()}, {w.view()}, {});
  EXPECT_EQ(a.u_q, b.u_q);
  EXPECT_EQ(HashPairs(a.u_q.data(), 96, a.v_q.data(), 32), HashPairs(b.u_q.data(), 96, b.v_q.data(), 32));
  std::vector<float> other = a.v_q;
  other[77] = std::nextafter(other[77], 1.0f);
  EXPECT_NE(HashPairs(a.u_q.data(), 96, a.v_q.data(), 32), HashPairs(a.u_q.data(), 96, other.data(), 32));
  EXPECT_EQ(a.v_k, b.v_k);
  EXPECT_EQ(a.qk, b.qk);
}

TEST(WeightProbe, RefusesBadArguments) {
  const StoredWeight w(RandomMatrix(8, 4, 1), DType::kFp32), other(RandomMatrix(8, 5, 1), DType::kFp32);
  EXPECT_EQ(Probe({w.view()}, {other.view()}, {}).status, KernelStatus::kBadShape);
  EXPECT_EQ(Probe({w.view()}, {w.view()}, {1}).status, KernelStatus::kBadShape);
  EXPECT_EQ(Probe({w.view(), w.view()}, {w.view()}, {}).status, KernelStatus::kBadShape);
  WeightView view = w.view();
  view.dtype = static_cast<DType>(9);
  EXPECT_EQ(Probe({view}, {}, {}).status, KernelStatus::kBadDType);
  view = w.view();
  view.d_model = -1;
  EXPECT_EQ(Probe({w.view(), view}, {}, {}).status, KernelStatus::kBadShape);
  view = w.view();
  view.data = nullptr;
  EXPECT_EQ(Probe({view}, {}, {}).status, KernelStatus::kNullPointer);
  const WeightView good = w.view();
  const WeightSet set{&good, 1, nullptr, 0, nullptr};
  std::vector<unsigned char> scratch(ProbeWeightsWorkspaceBytes(set) - 65);
  HeadSpectrum out;
  WeightProbeResult result;
  result.q = &out;
  EXPECT_EQ(ProbeWeights(set, result, {scratch.data(), scratch.size()}), KernelStatus::kWorkspaceTooSmall);
  EXPECT_EQ(ProbeWeights(set, result, {}), KernelStatus::kWorkspaceTooSmall);
}

}  // namespace
}  // namespace foreshock::kernels
