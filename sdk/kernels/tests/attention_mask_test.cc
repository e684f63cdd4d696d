// Masks, biases, sinks, and values that are not finite.
#include <gtest/gtest.h>

#include <limits>

#include "attention_expect.h"

namespace foreshock::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A pseudo-random function of an entry.
double Noise(int64_t b, int64_t h, int64_t i, int64_t j) {
  uint64_t x = static_cast<uint64_t>(((b * 31 + h) * 1009 + i) * 1009 + j) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
  return static_cast<double>(x >> 40) * 0x1p-24;
}

// Dense [batch, head, query, key] buffers of a case with equal lengths.
struct Dense {
  int64_t heads, q_len, k_len;
  size_t At(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return static_cast<size_t>(((b * heads + h) * q_len + i) * k_len + j);
  }
  ScoreView View(const void* data, DType dtype) const {
    return {data, dtype, heads * q_len * k_len, q_len * k_len, k_len, 1};
  }
  template <typename F>
  void ForEach(int64_t batch, F&& f) const {
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < q_len; ++i) {
          for (int64_t j = 0; j < k_len; ++j) f(b, h, i, j);
        }
      }
    }
  }
};

constexpr Dense kDense{4, 33, 33};
constexpr size_t kEntries = 2 * 4 * 33 * 33;

void ExpectAgainst(const AttentionCase& c, const reference::Attention& a) {
  KernelStatus status = KernelStatus::kOk;
  const std::vector<AttentionHeadStats> got = RunAttention(c.Problem(), &status);
  ASSERT_EQ(status, KernelStatus::kOk);
  for (int64_t h = 0; h < a.q_heads; ++h) ExpectHead(got[static_cast<size_t>(h)], a, h);
}

TEST(AttentionMask, BooleanMask) {
  AttentionCase c(CaseOptions{});
  std::vector<uint8_t> keep(kEntries);
  kDense.ForEach(2, [&](auto... at) { keep[kDense.At(at...)] = Noise(at...) < 0.4; });
  c.problem.keep_mask = kDense.View(keep.data(), DType::kFp32);
  reference::Attention a = c.Reference();
  a.valid = [&, causal = a.valid](auto... at) { return causal(at...) && keep[kDense.At(at...)] != 0; };
  ExpectAgainst(c, a);
}

TEST(AttentionMask, BroadcastBooleanMaskOverHeadsAndQueries) {
  AttentionCase c(CaseOptions{});
  std::vector<uint8_t> keep(2 * 33);  // key padding
  for (size_t i = 0; i < keep.size(); ++i) keep[i] = i % 33 < (i < 33 ? 20 : 9);
  c.problem.keep_mask = {keep.data(), DType::kFp32, 33, 0, 0, 1};
  c.problem.causal = false;
  reference::Attention a = c.Reference();
  a.valid = [&](int64_t b, int64_t, int64_t, int64_t j) {
    return keep[static_cast<size_t>(b * 33 + j)] != 0;
  };
  ExpectAgainst(c, a);
}

TEST(AttentionMask, AdditiveMaskMasksBelowMinusTenThousandAndAddsAbove) {
  for (DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp64}) {
    AttentionCase c(CaseOptions{});
    std::vector<unsigned char> bytes(kEntries * SizeOf(dtype));
    kDense.ForEach(2, [&](auto... at) {
      const double noise = Noise(at...);
      const double masked = noise < 0.1 ? -INFINITY : (noise < 0.2 ? -1.001e4 : -6e4);
      StoreFloat(bytes.data(), dtype, static_cast<int64_t>(kDense.At(at...)),
                 static_cast<float>(noise < 0.3 ? masked : (noise < 0.4 ? -9.9e3 : noise)));
    });
    c.problem.additive_mask = kDense.View(bytes.data(), dtype);
    c.problem.causal = false;
    reference::Attention a = c.Reference();
    const auto value = [&](auto... at) {
      return LoadDouble(bytes.data(), dtype, static_cast<int64_t>(kDense.At(at...)));
    };
    a.valid = [&](auto... at) { return !(value(at...) <= -1e4); };
    a.bias = [&](auto... at) { return value(at...); };
    ExpectAgainst(c, a);
  }
}

TEST(AttentionMask, BiasMasksOnlyAtMinusInfinity) {
  AttentionCase c(CaseOptions{});
  std::vector<float> bias(kEntries);
  kDense.ForEach(2, [&](auto... at) {
    const double noise = Noise(at...);
    bias[kDense.At(at...)] = noise < 0.2 ? -kInf : (noise < 0.3 ? -2e4f : static_cast<float>(noise));
  });
  c.problem.bias = kDense.View(bias.data(), DType::kFp32);
  reference::Attention a = c.Reference();
  a.valid = [&, causal = a.valid](auto... at) { return causal(at...) && bias[kDense.At(at...)] != -kInf; };
  a.bias = [&](auto... at) { return static_cast<double>(bias[kDense.At(at...)]); };
  ExpectAgainst(c, a);
  EXPECT_LT(RunAttention(c.Problem())[0].logit_min, -1.9e4) << "a strong bias is a value, not a mask";
}

TEST(AttentionMask, AlibiFollowsThePosition) {
  const float slopes[4] = {0.5f, 0.25f, 0.125f, 0.0625f};
  CaseOptions o;
  o.storage = Storage::kPacked;
  o.q_lens = {10, 33};
  o.k_lens = {30, 33};
  o.softcap = 5;
  AttentionCase c(o);
  c.problem.alibi_slopes = slopes;
  reference::Attention a = c.Reference();
  a.bias = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    const auto s = static_cast<size_t>(b);
    return -static_cast<double>(slopes[h]) * static_cast<double>(std::abs(i + o.k_lens[s] - o.q_lens[s] - j));
  };
  ExpectAgainst(c, a);
}

TEST(AttentionMask, LearnedSinksTakeProbabilityApart) {
  for (float level : {-3.0f, 0.0f, 4.0f, 300.0f}) {
    const float sinks[8] = {level, level - 1, level, 0, level, -kInf, 1, level};
    AttentionCase c(CaseOptions{});
    c.problem.sinks = sinks;
    c.problem.n_sinks = 2;
    ExpectMatches(c);
  }
}

TEST(AttentionMask, RowsWithoutTwoKeysCountInNothing) {
  AttentionCase c(CaseOptions{});
  std::vector<uint8_t> keep(kEntries);
  kDense.ForEach(2, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    keep[kDense.At(b, h, i, j)] = i < 30 ? (j == i % 7) : 0;  // one key, then none
  });
  c.problem.keep_mask = kDense.View(keep.data(), DType::kFp32);
  c.problem.causal = false;
  for (const AttentionHeadStats& h : RunAttention(c.Problem())) {
    EXPECT_EQ(h.rows, 0);
    EXPECT_EQ(h.rows_visited, 66);
    EXPECT_EQ(h.logit_max, 0);
    EXPECT_EQ(h.entropy_sum, 0);
  }
}

// A NaN key is seen by the causal rows at and after it, by its group's heads alone.
TEST(AttentionMask, NanCountsOnlyWhereValid) {
  for (int64_t token : {0, 16, 32}) {
    AttentionCase c(CaseOptions{});
    c.k.Set(1, token, 0, 3, kNaN);
    const std::vector<AttentionHeadStats> got = RunAttention(c.Problem());
    for (size_t h = 0; h < 4; ++h) {
      EXPECT_EQ(std::isnan(got[h].logit_max), h < 2) << h;
      EXPECT_EQ(std::isnan(got[h].logit_min), h < 2) << h;
      EXPECT_EQ(std::isnan(got[h].tied_rows), h < 2) << h;
      EXPECT_EQ(std::isnan(got[h].tied_rows_bf16), h < 2) << h;
      EXPECT_EQ(std::isnan(got[h].unit_p_rows), h < 2) << h;
      EXPECT_EQ(std::isnan(got[h].saturated_rows), h < 2) << h;
      EXPECT_EQ(std::isnan(got[h].entropy_sum), h < 2) << h;
      EXPECT_EQ(std::isnan(got[h].lse_sum), h < 2) << h;
      EXPECT_EQ(std::isnan(got[h].sink_weight_sum), h < 2) << h;
      EXPECT_EQ(got[h].rows, 64);
    }
    const reference::Attention a = c.Reference();
    for (int64_t h = 2; h < 4; ++h) ExpectHead(got[static_cast<size_t>(h)], a, h);
    // Masked everywhere, it is nobody's value.
    std::vector<uint8_t> keep(33, 1);
    keep[static_cast<size_t>(token)] = 0;
    c.problem.keep_mask = {keep.data(), DType::kFp32, 0, 0, 0, 1};
    for (const AttentionHeadStats& h : RunAttention(c.Problem())) EXPECT_TRUE(std::isfinite(h.entropy_sum));
  }
}

TEST(AttentionMask, ANanRowThatIsNotVisitedDoesNotCount) {
  AttentionCase c(CaseOptions{});
  c.q.Set(0, 16, 2, 0, kNaN);
  EXPECT_TRUE(std::isnan(RunAttention(c.Problem())[2].entropy_sum));
  c.problem.sampling = {2, 1, 1, 0};
  EXPECT_TRUE(std::isfinite(RunAttention(c.Problem())[2].entropy_sum));
}

TEST(AttentionMask, InfiniteScoresAreValues) {
  AttentionCase c(CaseOptions{});
  c.problem.causal = false;
  std::vector<float> bias(kEntries);
  bias[kDense.At(0, 1, 5, 7)] = kInf;
  c.problem.bias = kDense.View(bias.data(), DType::kFp32);
  const std::vector<AttentionHeadStats> got = RunAttention(c.Problem());
  EXPECT_EQ(got[1].logit_max, INFINITY);
  EXPECT_EQ(got[1].lse_sum, INFINITY);
  EXPECT_TRUE(std::isfinite(got[1].logit_min) && std::isfinite(got[1].tied_rows));
  EXPECT_TRUE(std::isnan(got[1].entropy_sum) && std::isnan(got[1].saturated_rows));
  EXPECT_TRUE(std::isfinite(got[0].entropy_sum));
}

TEST(AttentionMask, MergeKeepsNanAndIgnoresEmptySides) {
  AttentionHeadStats empty, some, bad;
  empty.rows_visited = 3;
  some.rows = some.rows_visited = 4;
  some.logit_max = -2;
  some.logit_min = -9;
  bad = some;
  bad.logit_max = bad.entropy_sum = static_cast<double>(kNaN);
  AttentionHeadStats a = empty;
  Merge(some, &a);
  EXPECT_EQ(a.logit_max, -2);
  EXPECT_EQ(a.rows_visited, 7);
  Merge(empty, &a);
  EXPECT_EQ(a.logit_max, -2);
  Merge(bad, &a);
  EXPECT_TRUE(std::isnan(a.logit_max) && std::isnan(a.entropy_sum));
  EXPECT_EQ(a.logit_min, -9);
  EXPECT_EQ(a.rows, 8);
}

}  // namespace
}  // namespace foreshock::kernels
