#include "foreshock/trainer/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "foreshock/trainer/random.h"

namespace foreshock::trainer {
namespace {

// Both versions; the same one twice where the CPU has no AVX2.
class KernelsTest : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& k() const { return *GetParam(); }
  std::vector<float> normals(int count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(random_.normal());
    return values;
  }
  Random random_{7};
};

TEST_P(KernelsTest, ProductsInEveryStrideAgreeWithDouble) {
  for (const int m : {1, 3, 4, 5, 31}) {
    for (const int depth : {1, 2, 16, 33}) {
      const int n = 32;
      const auto a = normals(m * depth);
      const auto b = normals(depth * n);
      const auto start = normals(m * n);
      std::vector<float> pack(static_cast<std::size_t>(16 * depth));
      for (int variant = 0; variant < 8; ++variant) {
        const bool ta = variant & 1;
        const bool tb = variant & 2;
        const bool add = variant & 4;
        auto c = start;
        k().multiply({m, n, depth, a.data(), ta ? 1 : depth, ta ? m : 1, b.data(), tb ? 1 : n, tb ? depth : 1,
                      c.data(), n, add, pack.data()});
        for (int i = 0; i < m; ++i) {
          for (int j = 0; j < n; ++j) {
            double expected = add ? start[static_cast<std::size_t>(i * n + j)] : 0;
            for (int p = 0; p < depth; ++p) {
              expected += static_cast<double>(a[static_cast<std::size_t>(ta ? p * m + i : i * depth + p)]) *
                          b[static_cast<std::size_t>(tb ? j * depth + p : p * n + j)];
            }
            ASSERT_TRUE(std::abs(c[static_cast<std::size_t>(i * n + j)] - expected) <= 1e-4) << variant;
          }
        }
      }
    }
  }
}

TEST_P(KernelsTest, SoftmaxRowsSumToOneOverTheirOwnKeys) {
  constexpr int kKeys = 32;
  auto s = normals(kKeys * kKeys);
  for (float& value : s) value *= 50;
  const auto scores = s;
  float largest = -std::numeric_limits<float>::infinity();
  k().causal_softmax(s.data(), kKeys, 0.5f, &largest);
  float expected_largest = -std::numeric_limits<float>::infinity();
  for (int i = 0; i < kKeys; ++i) {
    double top = -1e30;
    for (int j = 0; j <= i; ++j) top = std::max(top, 0.5 * scores[static_cast<std::size_t>(i * kKeys + j)]);
    expected_largest = std::max(expected_largest, static_cast<float>(top));
    double total = 0;
    for (int j = 0; j <= i; ++j)
      total += std::exp(0.5 * scores[static_cast<std::size_t>(i * kKeys + j)] - top);
    for (int j = 0; j < kKeys; ++j) {
      const auto at = static_cast<std::size_t>(i * kKeys + j);
      const double expected = j > i ? 0 : std::exp(0.5 * scores[at] - top) / total;
      EXPECT_TRUE(std::abs(s[at] - expected) <= 2e-6) << i << " " << j;
      if (j > i) {
        EXPECT_EQ(s[at], 0.0f);
      }
    }
  }
  EXPECT_EQ(largest, expected_largest);
}

TEST_P(KernelsTest, SoftmaxKeepsNanInItsRow) {
  auto s = normals(16 * 16);
  s[5 * 16 + 2] = std::numeric_limits<float>::quiet_NaN();
  s[5 * 16 + 9] = std::numeric_limits<float>::quiet_NaN();  // masked: counts nowhere
  s[3 * 16 + 4] = std::numeric_limits<float>::quiet_NaN();  // masked
  float largest = -std::numeric_limits<float>::infinity();
  k().causal_softmax(s.data(), 16, 1.0f, &largest);
  EXPECT_TRUE(std::isnan(largest));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(std::isnan(s[static_cast<std::size_t>(i * 16)]), i == 5) << i;
}

TEST_P(KernelsTest, GeluAndItsDerivative) {
  auto x = normals(64);
  for (float& value : x) value *= 3;
  x[0] = 60;
  x[1] = -60;
  std::vector<float> y(x.size());
  k().gelu(x.data(), y.data(), 64);
  std::vector<float> slope(x.size(), 1.0f);
  k().gelu_backward(x.data(), slope.data(), 64);
  const auto reference = [](double a) {
    return 0.5 * a * (1 + std::tanh(0.7978845608 * (a + 0.044715 * a * a * a)));
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double a = x[i];
    EXPECT_TRUE(std::abs(y[i] - reference(a)) <= 1e-5 * (1 + std::abs(a)));
    EXPECT_TRUE(std::abs(slope[i] - (reference(a + 1e-5) - reference(a - 1e-5)) / 2e-5) <= 1e-4) << a;
  }
}

TEST_P(KernelsTest, CrossEntropyAndItsDerivative) {
  constexpr int kRows = 3;
  constexpr int kWidth = 32;
  auto logits = normals(kRows * kWidth);
  const auto before = logits;
  const unsigned char targets[kRows] = {0, 31, 7};
  const double loss = k().cross_entropy(logits.data(), targets, kRows, kWidth);
  double expected = 0;
  for (int r = 0; r < kRows; ++r) {
    double total = 0;
    for (int j = 0; j < kWidth; ++j) total += std::exp(before[static_cast<std::size_t>(r * kWidth + j)]);
    expected += std::log(total) - before[static_cast<std::size_t>(r * kWidth + targets[r])];
    for (int j = 0; j < kWidth; ++j) {
      const auto at = static_cast<std::size_t>(r * kWidth + j);
      const double slope = (std::exp(before[at]) / total - (j == targets[r] ? 1 : 0)) / kRows;
      EXPECT_TRUE(std::abs(logits[at] - slope) <= 1e-6);
    }
  }
  EXPECT_TRUE(std::abs(loss - expected / kRows) <= 1e-5);
}

TEST_P(KernelsTest, AdamwMovesByTheLearningRateFirstAndDecaysApart) {
  std::vector<float> w(16, 2.0f), g(16, 0.5f), m(16), v(16);
  const AdamStep step{.learning_rate = 0.1f,
                      .beta1 = 0.9f,
                      .beta2 = 0.95f,
                      .epsilon = 1e-8f,
                      .correction1 = 0.1f,
                      .correction2 = 0.05f,
                      .gradient_scale = 1.0f,
                      .decay = 0.01f};
  k().adamw(w.data(), g.data(), m.data(), v.data(), 16, step);
  for (const float value : w) EXPECT_NEAR(value, 2.0f * 0.99f - 0.1f, 1e-5);
  for (const float value : m) EXPECT_NEAR(value, 0.05f, 1e-7);
  for (const float value : v) EXPECT_NEAR(value, 0.0125f, 1e-7);
}

INSTANTIATE_TEST_SUITE_P(Versions, KernelsTest, testing::Values(&portable_kernels(), &kernels()),
                         [](const auto& version) { return version.index == 0 ? "portable" : "chosen"; });

}  // namespace
}  // namespace foreshock::trainer
