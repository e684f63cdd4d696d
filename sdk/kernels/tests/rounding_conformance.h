// What every backend of the rounding probe must do, as one suite: each backend's test instantiates it with a
// type that has
//   static bool Present()                 false: skipped
//   static std::vector<RoundingHeadStats> Run(const RoundingProblem&, KernelStatus* = nullptr)
//   static KernelStatus WithoutWorkspace(const RoundingProblem&)
//   static constexpr double kTolerance    of sums, relative to the size of their terms
//   static constexpr double kExactOutput  what delta_output_bias may be of an output that is right
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "attention_expect.h"
#include "foreshock/sdk/rounding_probe.h"

namespace foreshock::kernels {

template <typename Backend>
class RoundingConformance : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!Backend::Present()) GTEST_SKIP() << "skipped: no device of this backend";
  }
};
TYPED_TEST_SUITE_P(RoundingConformance);

inline void ExpectRatio(const RatioSums& got, const reference::Ratio& want, double tolerance,
                        const char* what) {
  SCOPED_TRACE(what);
  EXPECT_EQ(got.rows, want.rows);
  const auto close = [&](double a, double b, const char* part) {
    ExpectClose(a, b, tolerance * std::max(1.0, std::abs(b)), part);
  };
  // A signed sum is judged by the size of its terms.
  ExpectClose(got.num, want.num, tolerance * (1 + std::sqrt(std::abs(want.num_num) * want.rows)), "num");
  close(got.den, want.den, "den");
  close(got.num_num, want.num_num, "num num");
  ExpectClose(got.num_den, want.num_den, tolerance * (1 + std::sqrt(std::abs(want.num_num * want.den_den))),
              "num den");
  close(got.den_den, want.den_den, "den den");
}

template <typename Backend>
void ExpectRounding(const AttentionCase& c, double least_tolerance = 0) {
  const double tolerance = std::max(least_tolerance, Backend::kTolerance);
  KernelStatus status = KernelStatus::kOk;
  const std::vector<RoundingHeadStats> got = Backend::Run(c.Rounding(), &status);
  ASSERT_EQ(status, KernelStatus::kOk);
  const reference::Attention a = c.Reference();
  for (int64_t h = 0; h < a.q_heads; ++h) {
    SCOPED_TRACE(h);
    const RoundingHeadStats& g = got[static_cast<size_t>(h)];
    const reference::Rounding want = reference::RoundingStats(a, h);
    ExpectRatio(g.output_bias, want.output, tolerance, "output");
    ExpectRatio(g.output_bias_tied, want.tied, tolerance, "tied");
    ExpectRatio(g.output_bias_other, want.other, tolerance, "other");
    ExpectRatio(g.delta_output, want.delta_output, tolerance, "delta output");
    ExpectRatio(g.delta_error, want.delta_error, tolerance, "delta error");
    EXPECT_EQ(g.output_elements, want.elements);
    ExpectClose(g.delta_output_sign, want.delta_output_sign, 0, "delta output sign");
    // Errors of the size of the backend's own rounding have any sign.
    const reference::Ratio& e = want.delta_error;
    const bool noise = std::sqrt(e.num_num) < 10 * tolerance * std::sqrt(e.den_den);
    ExpectClose(g.delta_error_sign, want.delta_error_sign, noise ? e.rows : 0, "delta error sign");
    EXPECT_EQ(g.delta_error_left_out, want.left_out);
  }
}

TYPED_TEST_P(RoundingConformance, MatchesTheReferenceOverTypesAndLayouts) {
  for (DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
    for (Storage storage : {Storage::kBshd, Storage::kBhsd, Storage::kPacked, Storage::kGappy}) {
      CaseOptions o;
      o.dtype = dtype;
      o.storage = storage;
      o.v_dim = 24;
      ExpectRounding<TypeParam>(AttentionCase(o));
    }
  }
}

TYPED_TEST_P(RoundingConformance, LengthsWindowsSamplingAndSinks) {
  CaseOptions o;
  o.storage = Storage::kPacked;
  o.q_lens = {0, 1, 2, 31, 140};
  o.k_lens = {0, 1, 9, 31, 140};
  AttentionCase c(o);
  ExpectRounding<TypeParam>(c);
  c.problem.window_left = 20;
  c.problem.sampling = {3, 1, 1, 0};
  const float sinks[4] = {0, 1, -2, 3};
  c.problem.sinks = sinks;
  c.problem.n_sinks = 1;
  ExpectRounding<TypeParam>(c);
}

// With one sequence of one tile, key heads follow each other at the same place.
TYPED_TEST_P(RoundingConformance, OneSequence) {
  CaseOptions o;
  o.q_lens = {20};
  o.q_heads = o.kv_heads = 3;
  ExpectRounding<TypeParam>(AttentionCase(o));
}

TYPED_TEST_P(RoundingConformance, SoftCapReachesTheGradient) {
  CaseOptions o;
  o.softcap = 3;
  o.size = 2;
  ExpectRounding<TypeParam>(AttentionCase(o));
}

// Stores the exact O and dQ, changed by a fault, as a training step would.
inline void StoreExact(AttentionCase* c, DType dtype,
                       const std::function<double(double, int64_t head)>& change_o,
                       const std::function<double(double, int64_t head)>& change_delta) {
  const CaseOptions& opt = c->options;
  c->o = StoredTensor(opt.storage, dtype, opt.q_lens, opt.q_heads, opt.v_dim);
  const reference::Attention a = c->Reference();
  for (int64_t b = 0; b < c->sequences(); ++b) {
    for (int64_t h = 0; h < opt.q_heads; ++h) {
      for (int64_t i = 0; i < opt.q_lens[static_cast<size_t>(b)]; ++i) {
        const reference::ExactRow plain = reference::ExactGradients(a, b, h, i, NAN);
        double delta = 0;
        for (int64_t d = 0; d < opt.v_dim; ++d) {
          c->o.Set(b, i, h, d, change_o(plain.o[static_cast<size_t>(d)], h));
          delta += c->d_o.Get(b, i, h, d) * c->o.Get(b, i, h, d);
        }
        const reference::ExactRow exact = reference::ExactGradients(a, b, h, i, change_delta(delta, h));
        for (int64_t d = 0; d < opt.dim; ++d) c->dq.Set(b, i, h, d, exact.dq[static_cast<size_t>(d)]);
      }
    }
  }
}

inline const auto kAsIs = [](double x, int64_t) { return x; };

inline CaseOptions Large() {
  CaseOptions o;
  o.q_heads = 3;
  o.kv_heads = 1;
  o.dim = 32;
  o.v_dim = 128;
  o.q_lens = std::vector<int64_t>(20, 42);  // 20 x 41 rows that count x 128 = 104,960 elements a head
  return o;
}

// 0.02 ulp in one head at 3 standard errors from 1e5 elements, and nothing in the heads beside it.
TYPED_TEST_P(RoundingConformance, SeesAFiftiethOfAnUlpInOneHead) {
  AttentionCase c(Large());
  // Before rounding to bf16, head 1 is moved away from zero by 0.02 ulp.
  StoreExact(
      &c, DType::kBf16,
      [](double x, int64_t h) { return h == 1 ? x + std::copysign(0.02 * UlpBf16(x), x) : x; }, kAsIs);
  const std::vector<RoundingHeadStats> got = TypeParam::Run(c.Rounding());
  for (size_t h = 0; h < 3; ++h) {
    const RatioSums& bias = got[h].output_bias;
    EXPECT_GE(got[h].output_elements, 1e5);
    ASSERT_TRUE(bias.HasValue());
    const double z = bias.Value() / bias.StandardError();
    if (h == 1) {
      EXPECT_GE(z, 3) << bias.Value() << " +- " << bias.StandardError();
      EXPECT_NEAR(bias.Value(), 0.02, 4 * bias.StandardError());
    } else {
      EXPECT_LE(std::abs(z), 3) << bias.Value() << " +- " << bias.StandardError();
    }
    EXPECT_LE(bias.StandardError(), 0.02 / 3);
  }
}

// The standard error means what it says: over many healthy heads z is standard normal.
TYPED_TEST_P(RoundingConformance, StandardErrorsAreHonest) {
  double square = 0;
  int n = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    CaseOptions o;
    o.q_heads = 8;
    o.kv_heads = 8;
    o.seed = 50 + seed;
    o.q_lens = {40, 40};
    AttentionCase c(o);
    StoreExact(&c, DType::kBf16, kAsIs, kAsIs);
    for (const RoundingHeadStats& h : TypeParam::Run(c.Rounding())) {
      square += std::pow(h.output_bias.Value() / h.output_bias.StandardError(), 2);
      ++n;
    }
  }
  EXPECT_GT(square / n, 0.5);
  EXPECT_LT(square / n, 1.7);
}

TYPED_TEST_P(RoundingConformance, SeesABiasOfDelta) {
  AttentionCase c(Large());
  double mean = 0;
  const reference::Attention a = c.Reference();
  for (int64_t i = 0; i < 42; ++i) mean += std::abs(reference::ExactGradients(a, 0, 1, i, NAN).delta) / 42;
  StoreExact(&c, DType::kFp32, kAsIs,
             [&](double delta, int64_t h) { return h == 1 ? delta + 0.01 * mean : delta; });
  const std::vector<RoundingHeadStats> got = TypeParam::Run(c.Rounding());
  for (size_t h = 0; h < 3; ++h) {
    const double rows = got[h].delta_error.rows;
    EXPECT_GT(rows, 700);
    EXPECT_LE(std::abs(got[h].delta_output.Value()), TypeParam::kExactOutput) << "the output itself is right";
    if (h == 1) {
      EXPECT_NEAR(got[h].delta_error.Value(), 0.01, 0.003);
      EXPECT_GE(got[h].delta_error_sign / rows, 0.95);
    } else {
      EXPECT_LE(std::abs(got[h].delta_error.Value()), 1e-4);
      EXPECT_LE(std::abs(got[h].delta_error_sign / rows), 0.2);
    }
  }
}

TYPED_TEST_P(RoundingConformance, TellsTiedRowsApart) {
  AttentionCase c(CaseOptions{});
  // Key 1 repeats key 0: rows whose largest score is theirs are tied.
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t g = 0; g < 2; ++g) {
      for (int64_t d = 0; d < 16; ++d) c.k.Set(b, 1, g, d, c.k.Get(b, 0, g, d));
    }
  }
  const reference::Attention a = c.Reference();
  StoreExact(&c, DType::kBf16, kAsIs, kAsIs);
  ExpectRounding<TypeParam>(c);
  for (const RoundingHeadStats& h : TypeParam::Run(c.Rounding())) {
    EXPECT_GT(h.output_bias_tied.rows, 0);
    EXPECT_GT(h.output_bias_other.rows, 0);
    EXPECT_EQ(h.output_bias_tied.rows + h.output_bias_other.rows, h.output_bias.rows);
  }
}

TYPED_TEST_P(RoundingConformance, RowsWhoseKeysCancelAreLeftOut) {
  AttentionCase c(CaseOptions{});
  c.problem.causal = false;
  // The first sequence's keys come in opposite pairs and its queries are zero: P K = 0.
  for (int64_t g = 0; g < 2; ++g) {
    for (int64_t t = 0; t < 33; ++t) {
      for (int64_t d = 0; d < 16; ++d) {
        c.k.Set(0, t, g, d, t == 32 ? 0 : (t % 2 == 0 ? 1 : -1) * c.k.Get(0, t - t % 2, g, d));
        c.q.Set(0, t, 2 * g, d, 0);
        c.q.Set(0, t, 2 * g + 1, d, 0);
      }
    }
  }
  ExpectRounding<TypeParam>(c);
  for (const RoundingHeadStats& h : TypeParam::Run(c.Rounding())) {
    EXPECT_EQ(h.delta_error_left_out, 33);
    EXPECT_EQ(h.delta_error.rows, 33);
    EXPECT_EQ(h.delta_output.rows, 66) << "only delta_error needs P K";
  }
}

// Uniform rows over equal keys, in one of two sequences made smaller: the median lies half-way between the
// two sizes.
TYPED_TEST_P(RoundingConformance, LeavesOutBelowAMillionthOfTheMedian) {
  for (double part : {0.45e-6, 0.55e-6, 2e-6, 1e-3}) {
    CaseOptions o;
    o.dtype = DType::kFp32;
    o.causal = false;
    AttentionCase c(o);
    for (int64_t g = 0; g < 2; ++g) {
      for (int64_t t = 0; t < 33; ++t) {
        for (int64_t d = 0; d < 16; ++d) {
          c.k.Set(0, t, g, d, std::sqrt(part) * c.k.Get(1, t, g, d));
          for (int64_t b = 0; b < 4; ++b) c.q.Set(b / 2, t, 2 * g + b % 2, d, 0);
        }
      }
    }
    ExpectRounding<TypeParam>(c, 1e-6);
    for (const RoundingHeadStats& h : TypeParam::Run(c.Rounding())) {
      EXPECT_EQ(h.delta_error_left_out, part < 0.5e-6 ? 33 : 0) << part;
    }
  }
}

TYPED_TEST_P(RoundingConformance, ZeroOutputsAreLeftOut) {
  AttentionCase c(CaseOptions{});
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < 33; ++t) c.v.Set(b, t, 0, 5, 0);
  }
  ExpectRounding<TypeParam>(c);
  EXPECT_EQ(TypeParam::Run(c.Rounding())[0].output_elements, 2 * 32 * 15);
}

TYPED_TEST_P(RoundingConformance, WithoutGradientsTheirSignalsAreMissing) {
  const AttentionCase c(CaseOptions{});
  RoundingProblem p = c.Rounding();
  p.dq.data = nullptr;
  RoundingHeadStats h = TypeParam::Run(p)[0];
  EXPECT_TRUE(h.output_bias.HasValue() && h.delta_output.HasValue());
  EXPECT_FALSE(h.delta_error.HasValue());
  p.d_o.data = nullptr;
  h = TypeParam::Run(p)[0];
  EXPECT_TRUE(h.output_bias.HasValue());
  EXPECT_FALSE(h.delta_output.HasValue());
}

TYPED_TEST_P(RoundingConformance, NanReachesWhatItTouches) {
  AttentionCase c(CaseOptions{});
  c.v.Set(0, 16, 0, 0, NAN);
  ExpectRounding<TypeParam>(c);
  RoundingHeadStats h = TypeParam::Run(c.Rounding())[0];
  EXPECT_TRUE(std::isnan(h.output_bias.num) && std::isnan(h.delta_output.num) &&
              std::isnan(h.delta_error.num));
  EXPECT_TRUE(std::isnan(h.output_bias.StandardError()));
  EXPECT_TRUE(std::isfinite(TypeParam::Run(c.Rounding())[2].output_bias.num)) << "the other group";

  AttentionCase d(CaseOptions{});
  d.dq.Set(1, 32, 3, 15, NAN);
  ExpectRounding<TypeParam>(d);
  h = TypeParam::Run(d.Rounding())[3];
  EXPECT_TRUE(std::isfinite(h.output_bias.num) && std::isfinite(h.delta_output.num));
  EXPECT_TRUE(std::isnan(h.delta_error.num) && std::isnan(h.delta_error_sign));

  AttentionCase e(CaseOptions{});
  e.k.Set(0, 3, 1, 2, NAN);
  ExpectRounding<TypeParam>(e);
}

// In the first, a middle and the last token: heads that do not meet it stay as they were.
TYPED_TEST_P(RoundingConformance, ValuesThatAreNotFiniteAnywhere) {
  for (const int64_t token : {0, 16, 32}) {
    for (StoredTensor AttentionCase::*tensor :
         {&AttentionCase::q, &AttentionCase::k, &AttentionCase::v, &AttentionCase::d_o}) {
      SCOPED_TRACE(token);
      AttentionCase c(CaseOptions{});
      (c.*tensor).Set(1, token, 0, 5, NAN);
      ExpectRounding<TypeParam>(c);
    }
  }
  const AttentionCase good(CaseOptions{});
  const std::vector<RoundingHeadStats> before = TypeParam::Run(good.Rounding());
  for (const int64_t token : {1, 16, 32}) {  // token 0 has one key, so its row does not count
    for (const float value : {INFINITY, -INFINITY, NAN}) {
      for (StoredTensor AttentionCase::*tensor : {&AttentionCase::q, &AttentionCase::v, &AttentionCase::o}) {
        SCOPED_TRACE(token);
        AttentionCase c(CaseOptions{});
        (c.*tensor).Set(1, token, 0, 5, value);
        const std::vector<RoundingHeadStats> got = TypeParam::Run(c.Rounding());
        EXPECT_FALSE(std::isfinite(got[0].output_bias.num));
        EXPECT_FALSE(std::isfinite(got[0].delta_output.num));
        for (const size_t head : {size_t{2}, size_t{3}}) {
          EXPECT_NEAR(got[head].output_bias.num, before[head].output_bias.num, 1e-3);
          EXPECT_EQ(got[head].output_elements, before[head].output_elements);
        }
      }
    }
  }
}

TYPED_TEST_P(RoundingConformance, RefusesBadArguments) {
  const AttentionCase c(CaseOptions{});
  const auto with = [&](auto&& change) {
    RoundingProblem p = c.Rounding();
    change(&p);
    KernelStatus s = KernelStatus::kOk;
    (void)TypeParam::Run(p, &s);
    return s;
  };
  EXPECT_EQ(with([](auto*) {}), KernelStatus::kOk);
  EXPECT_EQ(with([](auto* p) { p->v.data = nullptr; }), KernelStatus::kNullPointer);
  EXPECT_EQ(with([](auto* p) { p->o.data = nullptr; }), KernelStatus::kNullPointer);
  EXPECT_EQ(with([](auto* p) { p->d_o.data = nullptr; }), KernelStatus::kNullPointer) << "dq needs d_o";
  EXPECT_EQ(with([](auto* p) { p->o.dim = 8; }), KernelStatus::kBadShape);
  EXPECT_EQ(with([](auto* p) { p->v.heads = 4; }), KernelStatus::kBadShape);
  EXPECT_EQ(with([](auto* p) { p->dq.seq = 32; }), KernelStatus::kBadShape);
  EXPECT_EQ(with([](auto* p) { p->d_o.dtype = DType::kFp64; }), KernelStatus::kBadDType);
  EXPECT_EQ(TypeParam::WithoutWorkspace(c.Rounding()), KernelStatus::kWorkspaceTooSmall);
}

REGISTER_TYPED_TEST_SUITE_P(RoundingConformance, MatchesTheReferenceOverTypesAndLayouts,
                            LengthsWindowsSamplingAndSinks, OneSequence, SoftCapReachesTheGradient,
                            SeesAFiftiethOfAnUlpInOneHead, StandardErrorsAreHonest, SeesABiasOfDelta,
                            TellsTiedRowsApart, RowsWhoseKeysCancelAreLeftOut,
                            LeavesOutBelowAMillionthOfTheMedian, ZeroOutputsAreLeftOut,
                            WithoutGradientsTheirSignalsAreMissing, NanReachesWhatItTouches,
                            ValuesThatAreNotFiniteAnywhere, RefusesBadArguments);

}  // namespace foreshock::kernels
