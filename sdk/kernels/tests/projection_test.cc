#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "foreshock/sdk/update_accumulator.h"
#include "foreshock/sdk/weight_probe.h"
#include "weight_fixture.h"

namespace foreshock::kernels {
namespace {

double ExactR(const reference::Matrix& w, const float* u, const float* v) {
  long double sum = 0;
  for (int64_t i = 0; i < w.rows; ++i) {
    for (int64_t j = 0; j < w.cols; ++j) sum += static_cast<long double>(u[i]) * w(i, j) * v[j];
  }
  return static_cast<double>(sum);
}

std::vector<double> Project(const std::vector<WeightView>& w, const std::vector<float>& u, int64_t u_stride,
                            const std::vector<float>& v, int64_t v_stride) {
  std::vector<double> r(w.size() * kPairs, -1);
  EXPECT_EQ(ProjectPairs(w.data(), static_cast<int32_t>(w.size()), u.data(), u_stride, v.data(), v_stride,
                         r.data()),
            KernelStatus::kOk);
  return r;
}

TEST(Projection, IsExactOverTypesOrdersAndSizes) {
  for (DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp64}) {
    for (Order order : {Order::kRows, Order::kColumns, Order::kPaddedRows}) {
      for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {64, 16}, {33, 31}, {130, 64}}) {
        const StoredWeight w(RandomMatrix(rows, cols, rows, 0.05), dtype, order);
        const ProbedWeights p = Probe({w.view()}, {}, {});
        const std::vector<double> r = Project({w.view()}, p.u_q, rows, p.v_q, cols);
        for (int i = 0; i < kPairs; ++i) {
          const double want = ExactR(w.exact(), &p.u_q[i * rows], &p.v_q[i * cols]);
          EXPECT_LE(std::abs(r[i] - want), 1e-12 * p.q[0].sigma[0]);
        }
      }
    }
  }
}

TEST(Projection, NothingToProjectIsZero) {
  const StoredWeight w(reference::Matrix(0, 16), DType::kFp32, Order::kColumns);
  const std::vector<double> r = Project({w.view()}, std::vector<float>(3), 0, std::vector<float>(48), 16);
  EXPECT_EQ(r[0], 0);
}

TEST(Projection, ShardsAddUp) {
  const StoredWeight w(RandomMatrix(64, 16, 3, 0.05), DType::kFp32);
  const ProbedWeights p = Probe({w.view()}, {}, {});
  const std::vector<double> whole = Project({w.view()}, p.u_q, 64, p.v_q, 16);
  double sum[kPairs] = {};
  for (int64_t first : {0, 23, 40}) {
    WeightView shard = w.view();
    shard.data = static_cast<const float*>(shard.data) + first * shard.row_stride;
    shard.d_model = first == 0 ? 23 : (first == 23 ? 17 : 24);
    double r[kPairs];
    ASSERT_EQ(ProjectPairs(&shard, 1, p.u_q.data() + first, 64, p.v_q.data(), 16, r), KernelStatus::kOk);
    for (int i = 0; i < kPairs; ++i) sum[i] += r[i];
  }
  for (int i = 0; i < kPairs; ++i) EXPECT_LE(std::abs(sum[i] - whole[i]), 1e-14);
}

TEST(Projection, NanBelongsToItsHead) {
  StoredWeight a(RandomMatrix(32, 16, 1), DType::kBf16), b = a;
  const ProbedWeights p = Probe({a.view(), b.view()}, {}, {});
  b.Set(31, 15, NAN);
  const std::vector<double> r = Project({a.view(), b.view()}, p.u_q, 32, p.v_q, 16);
  for (int i = 0; i < kPairs; ++i) {
    EXPECT_TRUE(std::isfinite(r[i]));
    EXPECT_TRUE(std::isnan(r[kPairs + i]));
  }
}

TEST(Projection, RefusesBadArguments) {
  const StoredWeight w(RandomMatrix(8, 4, 1), DType::kFp32);
  const WeightView view = w.view();
  std::vector<float> u(24), v(12);
  double r[kPairs];
  EXPECT_EQ(ProjectPairs(&view, 1, u.data(), 7, v.data(), 4, r), KernelStatus::kBadShape);
  EXPECT_EQ(ProjectPairs(&view, 1, nullptr, 8, v.data(), 4, r), KernelStatus::kNullPointer);
  EXPECT_EQ(ProjectPairs(nullptr, 1, u.data(), 8, v.data(), 4, r), KernelStatus::kNullPointer);
  EXPECT_EQ(ProjectPairs(nullptr, -1, u.data(), 8, v.data(), 4, r), KernelStatus::kBadShape);
  EXPECT_EQ(ProjectPairs(nullptr, 0, nullptr, 0, nullptr, 0, nullptr), KernelStatus::kOk);
}

TEST(Projection, MatchOfPairs) {
  const StoredWeight w(RandomMatrix(64, 16, 3), DType::kFp32);
  ProbedWeights p = Probe({w.view()}, {}, {});
  std::vector<float> u = p.u_q, v = p.v_q;
  for (float& x : u) x = -x;  // the sign of a pair does not matter
  std::swap_ranges(v.begin() + 16, v.begin() + 32, v.begin() + 32);
  double match[kPairs];
  MatchPairs(p.u_q.data(), u.data(), 64, p.v_q.data(), v.data(), 16, match);
  EXPECT_NEAR(match[0], 1, 1e-5);
  EXPECT_NEAR(match[1], 0, 1e-5);
  EXPECT_NEAR(match[2], 0, 1e-5);
}

// 10^4 steps of 1e-4 sigma1: every c is good to 2e-7 sigma1, and the sum does not drift away from the truth.
TEST(Projection, TenThousandSmallSteps) {
  constexpr int64_t kRows = 64, kCols = 16;
  StoredWeight w(RandomMatrix(kRows, kCols, 9, 0.05), DType::kFp32);
  const ProbedWeights p = Probe({w.view()}, {}, {});
  const double sigma1 = p.q[0].sigma[0];
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal(0, 1e-4 * sigma1 / 32);
  const WeightView view = w.view();
  double r[kPairs];
  ASSERT_EQ(ProjectPairs(&view, 1, p.u_q.data(), kRows, p.v_q.data(), kCols, r), KernelStatus::kOk);
  UpdateAccumulator accumulator;
  accumulator.Start(r);
  const double first = r[0];
  double want_abs = 0, want_sign = 0;
  for (int step = 0; step < 10000; ++step) {
    double want = 0;
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kCols; ++j) {
        const double before = w.exact()(i, j);
        // A small drift along pair 1 under noise.
        w.Set(i, j, before + normal(random) + 1e-6 * sigma1 * double{p.u_q[i]} * double{p.v_q[j]});
        want += double{p.u_q[i]} * (w.exact()(i, j) - before) * double{p.v_q[j]};
      }
    }
    ASSERT_EQ(ProjectPairs(&view, 1, p.u_q.data(), kRows, p.v_q.data(), kCols, r), KernelStatus::kOk);
    accumulator.Step(r, 0);
    ASSERT_LE(std::abs(accumulator.last_c()[0] - want), 2e-7 * sigma1) << step;
    want_abs += std::abs(want);
    want_sign += want > 0 ? 1 : (want < 0 ? -1 : 0);
  }
  const UpdateSums sums = accumulator.Take();
  EXPECT_EQ(sums.n, 10000u);
  EXPECT_NEAR(sums.sum_c[0], r[0] - first, 1e-9 * sigma1);
  EXPECT_NEAR(sums.sum_abs_c[0], want_abs, 1e-9 * sigma1);
  EXPECT_EQ(sums.sum_sign[0], want_sign);
  EXPECT_GT(sums.sum_c[0], 5e-3 * sigma1) << "the drift shows";
}

}  // namespace
}  // namespace foreshock::kernels
