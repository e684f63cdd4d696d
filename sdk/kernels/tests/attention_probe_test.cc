#include "foreshock/sdk/attention_probe.h"

#include <gtest/gtest.h>

#include <tuple>

#include "attention_expect.h"

namespace foreshock::kernels {
namespace {

class AttentionLayouts : public ::testing::TestWithParam<std::tuple<DType, Storage, bool>> {};

TEST_P(AttentionLayouts, MatchesTheReference) {
  const auto [dtype, storage, causal] = GetParam();
  for (int64_t length : {1, 2, 31, 32, 33, 150}) {
    if (length > 100 && (storage != Storage::kGappy || dtype != DType::kBf16))
      continue;  // several tiles: once
    SCOPED_TRACE(length);
    CaseOptions o;
    o.dtype = dtype;
    o.storage = storage;
    o.causal = causal;
    o.q_lens = {length, length};
    o.seed = static_cast<uint64_t>(length);
    ExpectMatches(AttentionCase(o));
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionLayouts,
                         ::testing::Combine(::testing::Values(DType::kBf16, DType::kFp16, DType::kFp32),
                                            ::testing::Values(Storage::kBshd, Storage::kBhsd,
                                                              Storage::kPacked, Storage::kGappy),
                                            ::testing::Bool()));

TEST(AttentionProbe, HeadDimensions) {
  for (int64_t dim : {1, 7, 16, 17, 64, 80, 128, 256}) {
    SCOPED_TRACE(dim);
    CaseOptions o;
    o.dim = dim;
    o.q_lens = {40};
    ExpectMatches(AttentionCase(o));
  }
}

// N1, the activation side: 16 query heads on 8 key heads.
TEST(AttentionProbe, GroupedHeads) {
  for (const auto& [q, kv] : {std::pair<int64_t, int64_t>{16, 8}, {8, 1}, {3, 3}, {200, 1}}) {
    CaseOptions o;
    o.q_heads = q;
    o.kv_heads = kv;
    o.q_lens = {20};
    ExpectMatches(AttentionCase(o));
  }
}

TEST(AttentionProbe, NoSequencesAndNoTokens) {
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{}, {0}, {0, 0, 0}}) {
    CaseOptions o;
    o.q_lens = lengths;
    const AttentionCase c(o);
    KernelStatus status = KernelStatus::kOk;
    for (const AttentionHeadStats& h : RunAttention(c.Problem(), &status)) EXPECT_EQ(h.rows, 0);
    EXPECT_EQ(status, KernelStatus::kOk);
  }
}

// N5: zero-length and length-1 sequences; rows with one key count in no signal.
TEST(AttentionProbe, PackedSequencesOfAnyLength) {
  CaseOptions o;
  o.storage = Storage::kPacked;
  o.q_lens = {0, 1, 5, 0, 33, 1, 2, 130, 0};
  ExpectMatches(AttentionCase(o));
  o.causal = false;
  ExpectMatches(AttentionCase(o));
  o.q_lens = {1, 1, 1, 0};
  const std::vector<AttentionHeadStats> got = RunAttention(AttentionCase(o).Problem());
  EXPECT_EQ(got[0].rows, 0);
  EXPECT_EQ(got[0].rows_visited, 3);
  EXPECT_EQ(got[0].saturated_rows, 0) << "a single key always has probability 1: it says nothing";
}

TEST(AttentionProbe, UnequalLengths) {
  for (QueryAlign align : {QueryAlign::kBottomRight, QueryAlign::kTopLeft}) {
    for (int64_t offset : {0, 3, -4}) {
      CaseOptions o;
      o.storage = Storage::kPacked;
      o.q_lens = {5, 40, 10, 0, 3};
      o.k_lens = {40, 5, 10, 7, 0};
      AttentionCase c(o);
      c.problem.align = align;
      c.problem.query_offset = offset;
      ExpectMatches(c);
    }
  }
}

TEST(AttentionProbe, SlidingWindows) {
  for (const auto& [left, right] : {std::pair<int64_t, int64_t>{0, 0}, {1, -1}, {7, 2}, {300, 0}, {-1, 3}}) {
    for (bool causal : {true, false}) {
      CaseOptions o;
      o.q_lens = {140};
      o.causal = causal;
      AttentionCase c(o);
      c.problem.window_left = left;
      c.problem.window_right = right;
      ExpectMatches(c);
    }
  }
}

TEST(AttentionProbe, RowSampling) {
  for (int32_t every : {1, 3, 8, 100}) {
    for (int32_t offset : {0, 2, 99}) {
      CaseOptions o;
      o.storage = Storage::kPacked;
      o.q_lens = {33, 20, 0, 64, 7};
      AttentionCase c(o);
      c.problem.sampling = {every, offset, 2, 1};
      ExpectMatches(c);
      c.problem.sampling = {every, offset, 1, 0};
      ExpectMatches(c);
    }
  }
}

// Unbiased: over all offsets every row is visited exactly once.
TEST(AttentionProbe, OffsetsTogetherVisitEveryRowOnce) {
  CaseOptions o;
  o.q_lens = {50, 50, 50};
  AttentionCase c(o);
  const std::vector<AttentionHeadStats> all = RunAttention(c.Problem());
  AttentionHeadStats sum;
  for (int32_t row = 0; row < 8; ++row) {
    for (int32_t sequence = 0; sequence < 2; ++sequence) {
      c.problem.sampling = {8, row, 2, sequence};
      Merge(RunAttention(c.Problem())[1], &sum);
    }
  }
  EXPECT_EQ(sum.rows, all[1].rows);
  EXPECT_EQ(sum.rows_visited, all[1].rows_visited);
  EXPECT_EQ(sum.tied_rows_bf16, all[1].tied_rows_bf16);
  EXPECT_EQ(sum.logit_max, all[1].logit_max);
  EXPECT_EQ(sum.logit_min, all[1].logit_min);
  EXPECT_NEAR(sum.entropy_sum, all[1].entropy_sum, 1e-9 * all[1].entropy_sum);
}

TEST(AttentionProbe, SampleOffsetIsUniform) {
  int counts[8] = {};
  for (uint64_t step = 0; step < 8000; ++step) ++counts[SampleOffset(42, step, 8)];
  for (int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(SampleOffset(42, 7, 1), 0);
}

// N4: raw scores above 4400 saturate at the cap, no NaN.
TEST(AttentionProbe, SoftCapOfHugeScores) {
  CaseOptions o;
  o.size = 35;
  o.dtype = DType::kFp32;
  o.softcap = 0;
  const double raw = RunAttention(AttentionCase(o).Problem())[0].logit_max;
  ASSERT_GT(raw, 4400);
  o.softcap = 50;
  const AttentionCase c(o);
  ExpectMatches(c);
  for (const AttentionHeadStats& h : RunAttention(c.Problem())) {
    EXPECT_EQ(h.logit_max, 50);
    EXPECT_EQ(h.logit_min, -50);
    EXPECT_TRUE(std::isfinite(h.entropy_sum) && std::isfinite(h.lse_sum));
    EXPECT_GT(h.tied_rows, 0) << "capped scores tie";
  }
}

TEST(AttentionProbe, SoftCapInItsBend) {
  CaseOptions o;
  o.size = 3;
  o.softcap = 20;
  ExpectMatches(AttentionCase(o));
}

// Healthy runs live at logits of 2,000.
TEST(AttentionProbe, LogitsOfTwoThousand) {
  for (DType dtype : {DType::kBf16, DType::kFp32}) {
    CaseOptions o;
    o.dtype = dtype;
    o.dim = 64;
    o.q_lens = {150, 150};
    o.size = 22;
    const AttentionCase c(o);
    ASSERT_GT(RunAttention(c.Problem())[0].logit_max, 2000);
    ExpectMatches(c);
  }
}

TEST(AttentionProbe, FlatScoresHaveFullEntropyAndAllTies) {
  CaseOptions o;
  o.size = 0;
  o.q_lens = {300};
  o.causal = false;
  const AttentionHeadStats h = RunAttention(AttentionCase(o).Problem())[0];
  EXPECT_EQ(h.rows, 300);
  EXPECT_EQ(h.tied_rows, 300);
  EXPECT_EQ(h.unit_p_rows, 300);
  EXPECT_EQ(h.saturated_rows, 0);
  EXPECT_NEAR(h.entropy_sum / 300, std::log(300.0), 1e-5);
  EXPECT_NEAR(h.sink_weight_sum / 300, 1.0 / 300, 1e-7);
}

// Rows are met in blocks of keys: the extremes and the runner-up may lie in any of them, in any order.
TEST(AttentionProbe, ExtremesInAnyBlock) {
  const int64_t places[] = {0, 1, 127, 128, 129, 255, 256, 299};
  for (int64_t largest : places) {
    for (int64_t second : places) {
      const int64_t smallest = (largest + second + 37) % 300;
      if (second == largest || smallest == largest || smallest == second) continue;
      SCOPED_TRACE(testing::Message() << largest << " " << second << " " << smallest);
      CaseOptions o;
      o.q_heads = o.kv_heads = 1;
      o.q_lens = {2};
      o.k_lens = {300};
      o.causal = false;
      o.dtype = DType::kFp32;
      AttentionCase c(o);
      c.problem.scale = 1;
      for (int64_t d = 0; d < 16; ++d) {
        c.q.Set(0, 0, 0, d, 1);
        c.q.Set(0, 1, 0, d, 0.5);
        c.k.Set(0, largest, 0, d, 3.00001);
        c.k.Set(0, second, 0, d, 3);
        c.k.Set(0, smallest, 0, d, -4);
      }
      ExpectMatches(c);
      const AttentionHeadStats h = RunAttention(c.Problem())[0];
      EXPECT_NEAR(h.logit_min, -64, 1e-4);
      EXPECT_EQ(h.tied_rows, 2);
    }
  }
}

TEST(AttentionProbe, CountsAtTheThresholds) {
  // Two keys, one query with a single 1: scores are the keys' first entries.
  const auto run = [](float gap) {
    const float q[16] = {1};
    float k[32] = {};
    k[0] = 8 + gap;
    k[16] = 8;
    AttentionProblem p;
    p.q = Bshd(q, DType::kFp32, 1, 1, 1, 16);
    p.k = Bshd(k, DType::kFp32, 1, 2, 1, 16);
    return RunAttention(p)[0];
  };
  EXPECT_EQ(run(0).tied_rows, 1);
  EXPECT_EQ(run(0.000999f).tied_rows, 1);
  EXPECT_EQ(run(0.001002f).tied_rows, 0);
  EXPECT_EQ(run(0.001954f).unit_p_rows, 1);
  EXPECT_EQ(run(0.001956f).unit_p_rows, 0);
  EXPECT_EQ(run(0.03f).tied_rows_bf16, 1) << "8.03 rounds to 8 in bf16";
  EXPECT_EQ(run(0.032f).tied_rows_bf16, 0);
  EXPECT_EQ(run(4.59f).saturated_rows, 0);
  EXPECT_EQ(run(4.60f).saturated_rows, 1);
}

TEST(AttentionProbe, RefusesBadArguments) {
  const AttentionCase c(CaseOptions{});
  const auto status = [](const AttentionProblem& p) {
    KernelStatus s = KernelStatus::kOk;
    (void)RunAttention(p, &s);
    return s;
  };
  const auto with = [&](auto&& change) {
    AttentionProblem p = c.Problem();
    change(&p);
    return status(p);
  };
  EXPECT_EQ(status(c.Problem()), KernelStatus::kOk);
  EXPECT_EQ(with([](auto* p) { p->q.data = nullptr; }), KernelStatus::kNullPointer);
  EXPECT_EQ(with([](auto* p) { p->q.dtype = DType::kFp64; }), KernelStatus::kBadDType);
  EXPECT_EQ(with([](auto* p) { p->q.heads = 3; }), KernelStatus::kBadShape);
  EXPECT_EQ(with([](auto* p) { p->k.dim = 8; }), KernelStatus::kBadShape);
  EXPECT_EQ(with([](auto* p) { p->k.batch = 1; }), KernelStatus::kBadShape);
  EXPECT_EQ(with([](auto* p) { p->q.seq = -1; }), KernelStatus::kBadShape);
  EXPECT_EQ(with([](auto* p) { p->q.batch = p->k.batch = p->q.seq = int64_t{1} << 30; }),
            KernelStatus::kBadShape);
  EXPECT_EQ(with([](auto* p) { p->q.dim = p->k.dim = int64_t{1} << 60; }), KernelStatus::kBadShape);
  EXPECT_EQ(with([](auto* p) { p->k.heads = 0; }), KernelStatus::kBadShape);
  EXPECT_EQ(with([](auto* p) { p->scale = NAN; }), KernelStatus::kBadOption);
  EXPECT_EQ(with([](auto* p) { p->softcap = -1; }), KernelStatus::kBadOption);
  EXPECT_EQ(with([](auto* p) { p->sampling.row_every = 0; }), KernelStatus::kBadOption);
  EXPECT_EQ(with([](auto* p) { p->n_sinks = 1; }), KernelStatus::kNullPointer);
  AttentionHeadStats out;
  EXPECT_EQ(ProbeAttention(c.Problem(), &out, {}), KernelStatus::kWorkspaceTooSmall);

  CaseOptions packed;
  packed.storage = Storage::kPacked;
  AttentionCase d(packed);
  d.cu_q = {0, 40, 33};
  EXPECT_EQ(status(d.Problem()), KernelStatus::kBadSequences);
  d.cu_q = {-1, 33, 66};
  EXPECT_EQ(status(d.Problem()), KernelStatus::kBadSequences);
  d.cu_q = {0, 33, 67};
  EXPECT_EQ(status(d.Problem()), KernelStatus::kBadSequences);
}

}  // namespace
}  // namespace foreshock::kernels
