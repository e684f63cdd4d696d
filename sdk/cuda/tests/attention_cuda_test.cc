// The attention probe on the GPU against the float64 reference. Dense aligned 16-bit inputs take the Hopper
// kernel where there is one; misaligned ones, other dtypes and masks take the portable one.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "../../kernels/tests/attention_expect.h"
#include "cuda_fixture.h"

namespace foreshock::cuda {
namespace {

using kernels::AttentionCase;
using kernels::AttentionHeadStats;
using kernels::CaseOptions;
using kernels::DType;
using kernels::QueryAlign;
using kernels::ScoreView;
using kernels::Storage;

constexpr float kInf = std::numeric_limits<float>::infinity();

void ExpectAgainst(const AttentionCase& c, const reference::Attention& a) {
  for (size_t shift : {0, 1}) {
    SCOPED_TRACE(shift == 0 ? "aligned" : "misaligned");
    const std::vector<AttentionHeadStats> got = RunOnDevice(c.Problem(), shift);
    for (int64_t h = 0; h < a.q_heads; ++h) kernels::ExpectHead(got[static_cast<size_t>(h)], a, h);
  }
}
void ExpectCase(const AttentionCase& c) { ExpectAgainst(c, c.Reference()); }

class AttentionCudaLayouts : public ::testing::TestWithParam<std::tuple<DType, Storage, bool>> {};

TEST_P(AttentionCudaLayouts, MatchesTheReference) {
  FS_SKIP_WITHOUT_CUDA();
  const auto [dtype, storage, causal] = GetParam();
  for (int64_t length : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200}) {
    SCOPED_TRACE(length);
    CaseOptions o;
    o.dtype = dtype;
    o.storage = storage;
    o.causal = causal;
    o.dim = length == 200 ? 64 : 16;
    o.q_lens = {length, length};
    o.seed = static_cast<uint64_t>(length);
    ExpectCase(AttentionCase(o));
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionCudaLayouts,
                         ::testing::Combine(::testing::Values(DType::kBf16, DType::kFp16, DType::kFp32),
                                            ::testing::Values(Storage::kBshd, Storage::kBhsd,
                                                              Storage::kPacked, Storage::kGappy),
                                            ::testing::Bool()));

TEST(AttentionCuda, HeadDimensions) {
  FS_SKIP_WITHOUT_CUDA();
  for (DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32}) {
    for (int64_t dim : {1, 7, 8, 17, 32, 64, 72, 80, 96, 128, 136, 200, 256, 300}) {
      SCOPED_TRACE(dim);
      CaseOptions o;
      o.dtype = dtype;
      o.dim = dim;
      o.q_lens = {150};
      ExpectCase(AttentionCase(o));
    }
  }
}

TEST(AttentionCuda, GroupedHeads) {
  FS_SKIP_WITHOUT_CUDA();
  for (const auto& [q, kv] : {std::pair<int64_t, int64_t>{16, 8}, {8, 1}, {3, 3}, {200, 1}}) {
    CaseOptions o;
    o.q_heads = q;
    o.kv_heads = kv;
    o.q_lens = {20};
    ExpectCase(AttentionCase(o));
  }
}

TEST(AttentionCuda, ManyKeysAndRows) {
  FS_SKIP_WITHOUT_CUDA();
  for (bool causal : {true, false}) {
    for (int64_t dim : {64, 128}) {
      CaseOptions o;
      o.dim = dim;
      o.causal = causal;
      o.q_heads = o.kv_heads = 1;
      o.q_lens = {700};
      ExpectCase(AttentionCase(o));
    }
  }
}

// Tiles of 64 rows, dealt out in groups of (sequence, head) pairs whose keys fit into the L2: a whole one of 512
// pairs and a rest.
TEST(AttentionCuda, ManySmallTiles) {
  FS_SKIP_WITHOUT_CUDA();
  CaseOptions o;
  o.dim = 128;
  o.q_heads = o.kv_heads = 13;
  o.q_lens = std::vector<int64_t>(64, 128);
  ExpectCase(AttentionCase(o));
}

TEST(AttentionCuda, NoSequencesAndNoTokens) {
  FS_SKIP_WITHOUT_CUDA();
  for (Storage storage : {Storage::kBshd, Storage::kPacked}) {
    for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{}, {0}, {0, 0, 0}}) {
      CaseOptions o;
      o.storage = storage;
      o.q_lens = lengths;
      for (const AttentionHeadStats& h : RunOnDevice(AttentionCase(o).Problem())) {
        EXPECT_EQ(h.rows, 0);
        EXPECT_EQ(h.rows_visited, 0);
        EXPECT_EQ(h.logit_max, 0);
      }
    }
  }
  CaseOptions o;  // queries without keys
  o.storage = Storage::kPacked;
  o.q_lens = {5, 70};
  o.k_lens = {0, 0};
  EXPECT_EQ(RunOnDevice(AttentionCase(o).Problem())[0].rows_visited, 75);
}

TEST(AttentionCuda, PackedSequencesOfAnyLength) {
  FS_SKIP_WITHOUT_CUDA();
  CaseOptions o;
  o.storage = Storage::kPacked;
  o.q_lens = {0, 1, 5, 0, 33, 1, 2, 130, 0, 300};
  for (bool causal : {true, false}) {
    o.causal = causal;
    ExpectCase(AttentionCase(o));
  }
  o.q_lens = std::vector<int64_t>(1500, 3);  // more sequences than the planning block has threads
  o.q_heads = o.kv_heads = 1;
  ExpectCase(AttentionCase(o));
}

TEST(AttentionCuda, UnequalLengths) {
  FS_SKIP_WITHOUT_CUDA();
  for (QueryAlign align : {QueryAlign::kBottomRight, QueryAlign::kTopLeft}) {
    for (int64_t offset : {0, 3, -4, 200}) {
      CaseOptions o;
      o.storage = Storage::kPacked;
      o.q_lens = {5, 40, 10, 0, 3, 260};
      o.k_lens = {40, 5, 10, 7, 0, 400};
      AttentionCase c(o);
      c.problem.align = align;
      c.problem.query_offset = offset;
      ExpectCase(c);
    }
  }
}

TEST(AttentionCuda, SlidingWindows) {
  FS_SKIP_WITHOUT_CUDA();
  for (const auto& [left, right] : {std::pair<int64_t, int64_t>{0, 0}, {1, -1}, {7, 2}, {300, 0}, {-1, 3}}) {
    for (bool causal : {true, false}) {
      CaseOptions o;
      o.q_lens = {400};
      o.causal = causal;
      AttentionCase c(o);
      c.problem.window_left = left;
      c.problem.window_right = right;
      ExpectCase(c);
    }
  }
}

TEST(AttentionCuda, RowSampling) {
  FS_SKIP_WITHOUT_CUDA();
  for (int32_t every : {1, 3, 8, 100}) {
    for (int32_t offset : {0, 2, 99}) {
      for (Storage storage : {Storage::kPacked, Storage::kBhsd}) {
        CaseOptions o;
        o.storage = storage;
        o.q_heads = o.kv_heads = 1;
        o.q_lens = {33, 20, 0, 64, 7, 300};
        if (storage == Storage::kBhsd) o.q_lens = {300, 300, 300};
        AttentionCase c(o);
        c.problem.sampling = {every, offset, 2, 1};
        ExpectCase(c);
        c.problem.sampling = {every, offset, 1, 0};
        ExpectCase(c);
      }
    }
  }
}

TEST(AttentionCuda, SoftCap) {
  FS_SKIP_WITHOUT_CUDA();
  for (double size : {3.0, 35.0}) {
    for (DType dtype : {DType::kBf16, DType::kFp32}) {
      CaseOptions o;
      o.size = size;
      o.dtype = dtype;
      o.softcap = size > 4 ? 50 : 20;
      const AttentionCase c(o);
      ExpectCase(c);
      if (size > 4) {
        EXPECT_EQ(RunOnDevice(c.Problem())[0].logit_max, 50);
      }
    }
  }
}

// Healthy runs live at logits of 2,000.
TEST(AttentionCuda, LogitsOfTwoThousand) {
  FS_SKIP_WITHOUT_CUDA();
  for (DType dtype : {DType::kBf16, DType::kFp32}) {
    CaseOptions o;
    o.dtype = dtype;
    o.dim = 64;
    o.q_lens = {300, 300};
    o.size = 22;
    const AttentionCase c(o);
    ASSERT_GT(RunOnDevice(c.Problem())[0].logit_max, 2000);
    ExpectCase(c);
  }
}

// A negative scale turns the order of the products round; tiny and huge scores keep their own precision.
TEST(AttentionCuda, Scales) {
  FS_SKIP_WITHOUT_CUDA();
  for (float scale : {-0.25f, 0.0f, 1e-6f, 1e-30f, 100.0f}) {
    SCOPED_TRACE(scale);
    CaseOptions o;
    o.q_lens = {300};
    AttentionCase c(o);
    c.problem.scale = scale;
    ExpectCase(c);
  }
}

TEST(AttentionCuda, FlatScoresHaveFullEntropyAndAllTies) {
  FS_SKIP_WITHOUT_CUDA();
  CaseOptions o;
  o.size = 0;
  o.q_lens = {300};
  o.causal = false;
  const AttentionHeadStats h = RunOnDevice(AttentionCase(o).Problem())[0];
  EXPECT_EQ(h.rows, 300);
  EXPECT_EQ(h.tied_rows, 300);
  EXPECT_EQ(h.unit_p_rows, 300);
  EXPECT_EQ(h.saturated_rows, 0);
  EXPECT_NEAR(h.entropy_sum / 300, std::log(300.0), 1e-5);
  EXPECT_NEAR(h.sink_weight_sum / 300, 1.0 / 300, 1e-7);
}

// The extremes and the runner-up may lie in any tile and any thread's columns, in any order.
TEST(AttentionCuda, ExtremesAnywhere) {
  FS_SKIP_WITHOUT_CUDA();
  const int64_t places[] = {0, 1, 2, 3, 8, 9, 127, 128, 129, 255, 256, 299};
  for (DType dtype : {DType::kBf16, DType::kFp32}) {
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
        o.dtype = dtype;
        AttentionCase c(o);
        c.problem.scale = 1;
        for (int64_t d = 0; d < 16; ++d) {
          c.q.Set(0, 0, 0, d, 1);
          c.q.Set(0, 1, 0, d, 0.5);
          c.k.Set(0, largest, 0, d, 3);
          c.k.Set(0, second, 0, d, 3);
          c.k.Set(0, smallest, 0, d, -4);
        }
        // The runner-up lies 0.0078125 or half of it below, twice the next threshold.
        c.k.Set(0, second, 0, 0, 3 - 0.015625 * 0.5);
        const AttentionHeadStats h = RunOnDevice(c.Problem())[0];
        EXPECT_NEAR(h.logit_max, 48, 1e-4);
        EXPECT_NEAR(h.logit_min, -64, 1e-4);
        const double gap = 3 - c.k.Get(0, second, 0, 0);
        EXPECT_EQ(h.tied_rows, gap == 0 ? 2 : 0) << gap;
        c.k.Set(0, second, 0, 0, 3);
        EXPECT_EQ(RunOnDevice(c.Problem())[0].tied_rows, 2);
      }
    }
  }
}

TEST(AttentionCuda, CountsAtTheThresholds) {
  FS_SKIP_WITHOUT_CUDA();
  // Two keys, one query with a single 1: scores are the keys' first entries.
  const auto run = [](float gap) {
    const float q[16] = {1};
    float k[32] = {};
    k[0] = 8 + gap;
    k[16] = 8;
    kernels::AttentionProblem p;
    p.q = kernels::Bshd(q, DType::kFp32, 1, 1, 1, 16);
    p.k = kernels::Bshd(k, DType::kFp32, 1, 2, 1, 16);
    return RunOnDevice(p)[0];
  };
  EXPECT_EQ(run(0).tied_rows, 1);
  EXPECT_EQ(run(0.000998f).tied_rows, 1);
  EXPECT_EQ(run(0.001003f).tied_rows, 0);
  EXPECT_EQ(run(0.001953f).unit_p_rows, 1);
  EXPECT_EQ(run(0.001957f).unit_p_rows, 0);
  EXPECT_EQ(run(0.03f).tied_rows_bf16, 1) << "8.03 rounds to 8 in bf16";
  EXPECT_EQ(run(0.032f).tied_rows_bf16, 0);
  EXPECT_EQ(run(4.59f).saturated_rows, 0);
  EXPECT_EQ(run(4.60f).saturated_rows, 1);
}

// A pseudo-random function of an entry.
double Noise(int64_t b, int64_t h, int64_t i, int64_t j) {
  uint64_t x = static_cast<uint64_t>(((b * 31 + h) * 1009 + i) * 1009 + j) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
  return static_cast<double>(x >> 40) * 0x1p-24;
}

// Dense [2, 4, 150, 150] buffers.
constexpr int64_t kLength = 150;
constexpr size_t kEntries = 2 * 4 * kLength * kLength;
size_t Entry(int64_t b, int64_t h, int64_t i, int64_t j) {
  return static_cast<size_t>(((b * 4 + h) * kLength + i) * kLength + j);
}
ScoreView View(const void* data, DType dtype) {
  return {data, dtype, 4 * kLength * kLength, kLength * kLength, kLength, 1};
}
template <typename F>
void ForEachEntry(F&& f) {
  for (int64_t e = 0; e < static_cast<int64_t>(kEntries); ++e) {
    f(e / (4 * kLength * kLength), e / (kLength * kLength) % 4, e / kLength % kLength, e % kLength);
  }
}
AttentionCase MaskCase() {
  CaseOptions o;
  o.q_lens = {kLength, kLength};
  return AttentionCase(o);
}

TEST(AttentionCudaMask, BooleanMask) {
  FS_SKIP_WITHOUT_CUDA();
  for (double kept : {0.4, 0.02}) {
    AttentionCase c = MaskCase();
    std::vector<uint8_t> keep(kEntries);
    ForEachEntry([&](auto... at) { keep[Entry(at...)] = Noise(at...) < kept; });
    c.problem.keep_mask = View(keep.data(), DType::kFp32);
    reference::Attention a = c.Reference();
    a.valid = [&, causal = a.valid](auto... at) { return causal(at...) && keep[Entry(at...)] != 0; };
    ExpectAgainst(c, a);
  }
}

TEST(AttentionCudaMask, AdditiveMaskAndBias) {
  FS_SKIP_WITHOUT_CUDA();
  for (DType dtype : {DType::kBf16, DType::kFp16, DType::kFp32, DType::kFp64}) {
    AttentionCase c = MaskCase();
    std::vector<unsigned char> mask(kEntries * kernels::SizeOf(dtype));
    std::vector<unsigned char> bias(kEntries * kernels::SizeOf(dtype));
    ForEachEntry([&](auto... at) {
      const double noise = Noise(at...);
      const double masked = noise < 0.1 ? -INFINITY : (noise < 0.2 ? -1.01e4 : -6e4);
      StoreFloat(mask.data(), dtype, static_cast<int64_t>(Entry(at...)),
                 static_cast<float>(noise < 0.3 ? masked : noise));
      StoreFloat(bias.data(), dtype, static_cast<int64_t>(Entry(at...)),
                 noise > 0.9 ? -kInf : static_cast<float>(4 * noise));
    });
    c.problem.additive_mask = View(mask.data(), dtype);
    c.problem.bias = View(bias.data(), dtype);
    c.problem.causal = false;
    reference::Attention a = c.Reference();
    const auto of = [&](const auto& from, auto... at) {
      return LoadDouble(from.data(), dtype, static_cast<int64_t>(Entry(at...)));
    };
    a.valid = [&](auto... at) { return !(of(mask, at...) <= -1e4) && of(bias, at...) != -INFINITY; };
    a.bias = [&](auto... at) { return of(mask, at...) + of(bias, at...); };
    ExpectAgainst(c, a);
  }
}

TEST(AttentionCudaMask, AStrongBiasIsAValue) {
  FS_SKIP_WITHOUT_CUDA();
  for (float strong : {-2e4f, -3e38f}) {
    AttentionCase c = MaskCase();
    std::vector<float> bias(kEntries, 0);
    bias[Entry(0, 1, 100, 50)] = strong;
    c.problem.bias = View(bias.data(), DType::kFp32);
    const std::vector<AttentionHeadStats> got = RunOnDevice(c.Problem());
    EXPECT_NEAR(got[1].logit_min / static_cast<double>(strong), 1, 1e-3);
    EXPECT_TRUE(std::isfinite(got[1].entropy_sum));
    EXPECT_GT(got[0].logit_min, -100);
  }
}

TEST(AttentionCudaMask, AlibiFollowsThePosition) {
  FS_SKIP_WITHOUT_CUDA();
  const float slopes[4] = {0.5f, 0.25f, 0.125f, 0.0625f};
  CaseOptions o;
  o.storage = Storage::kPacked;
  o.q_lens = {10, 33, 130};
  o.k_lens = {30, 33, 140};
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

TEST(AttentionCudaMask, LearnedSinksTakeProbabilityApart) {
  FS_SKIP_WITHOUT_CUDA();
  for (float level : {-3.0f, 0.0f, 4.0f, 300.0f}) {
    const float sinks[8] = {level, level - 1, level, 0, level, -kInf, 1, level};
    AttentionCase c = MaskCase();
    c.problem.sinks = sinks;
    c.problem.n_sinks = 2;
    ExpectCase(c);
  }
}

TEST(AttentionCudaMask, RowsWithoutTwoKeysCountInNothing) {
  FS_SKIP_WITHOUT_CUDA();
  AttentionCase c = MaskCase();
  std::vector<uint8_t> keep(kEntries);
  ForEachEntry(
      [&](int64_t b, int64_t h, int64_t i, int64_t j) { keep[Entry(b, h, i, j)] = i < 90 && j == i % 7; });
  c.problem.keep_mask = View(keep.data(), DType::kFp32);
  c.problem.causal = false;
  for (const AttentionHeadStats& h : RunOnDevice(c.Problem())) {
    EXPECT_EQ(h.rows, 0);
    EXPECT_EQ(h.rows_visited, 2 * kLength);
    EXPECT_EQ(h.logit_max, 0);
    EXPECT_EQ(h.entropy_sum, 0);
  }
}

void ExpectAllNan(const AttentionHeadStats& h, bool nan) {
  for (double value : {h.logit_max, h.logit_min, h.tied_rows, h.tied_rows_bf16, h.unit_p_rows,
                       h.saturated_rows, h.entropy_sum, h.lse_sum, h.sink_weight_sum}) {
    EXPECT_EQ(std::isnan(value), nan);
  }
}

// A NaN key is seen by the causal rows at and after it, by its group's heads alone.
TEST(AttentionCudaMask, NanCountsOnlyWhereValid) {
  FS_SKIP_WITHOUT_CUDA();
  for (int64_t token : {0, 16, 149}) {
    for (size_t shift : {0, 1}) {
      AttentionCase c = MaskCase();
      c.k.Set(1, token, 0, 3, NAN);
      const std::vector<AttentionHeadStats> got = RunOnDevice(c.Problem(), shift);
      const reference::Attention a = c.Reference();
      for (size_t h = 0; h < 4; ++h) {
        ExpectAllNan(got[h], h < 2);
        EXPECT_EQ(got[h].rows, 2 * (kLength - 1));
        if (h >= 2) kernels::ExpectHead(got[h], a, static_cast<int64_t>(h));
      }
      // Masked everywhere, it is nobody's value.
      std::vector<uint8_t> keep(kLength, 1);
      keep[static_cast<size_t>(token)] = 0;
      c.problem.keep_mask = {keep.data(), DType::kFp32, 0, 0, 0, 1};
      for (const AttentionHeadStats& h : RunOnDevice(c.Problem(), shift)) ExpectAllNan(h, false);
    }
  }
}

// Sequences of a packed batch lie side by side: another's NaN is nobody's business.
TEST(AttentionCudaMask, NanStaysInItsSequence) {
  FS_SKIP_WITHOUT_CUDA();
  CaseOptions o;
  o.storage = Storage::kPacked;
  o.q_lens = {70, 70, 70};
  o.causal = false;
  AttentionCase c(o);
  for (int64_t b : {0, 2}) {
    for (int64_t t = 0; t < 70; ++t) {
      c.k.Set(b, t, 0, 0, NAN);
      c.q.Set(b, t, 0, 0, NAN);
    }
  }
  c.problem.sampling = {1, 0, 3, 1};
  ExpectCase(c);
  EXPECT_TRUE(std::isfinite(RunOnDevice(c.Problem())[0].entropy_sum));
}

TEST(AttentionCudaMask, ANanRowThatIsNotVisitedDoesNotCount) {
  FS_SKIP_WITHOUT_CUDA();
  AttentionCase c = MaskCase();
  c.q.Set(0, 16, 2, 0, NAN);
  EXPECT_TRUE(std::isnan(RunOnDevice(c.Problem())[2].entropy_sum));
  c.problem.sampling = {2, 1, 1, 0};
  EXPECT_TRUE(std::isfinite(RunOnDevice(c.Problem())[2].entropy_sum));
}

TEST(AttentionCudaMask, InfiniteScoresAreValues) {
  FS_SKIP_WITHOUT_CUDA();
  AttentionCase c = MaskCase();
  c.problem.causal = false;
  std::vector<float> bias(kEntries);
  bias[Entry(0, 1, 5, 7)] = kInf;
  c.problem.bias = View(bias.data(), DType::kFp32);
  const std::vector<AttentionHeadStats> got = RunOnDevice(c.Problem());
  EXPECT_EQ(got[1].logit_max, INFINITY);
  EXPECT_EQ(got[1].lse_sum, INFINITY);
  EXPECT_TRUE(std::isfinite(got[1].logit_min) && std::isfinite(got[1].tied_rows));
  EXPECT_TRUE(std::isnan(got[1].entropy_sum) && std::isnan(got[1].saturated_rows));
  EXPECT_TRUE(std::isfinite(got[0].entropy_sum));

  // Products that overflow, in either direction, in plain problems.
  for (double value : {INFINITY, -INFINITY}) {
    for (int64_t token : {0, 77, 149}) {
      AttentionCase d = MaskCase();
      for (int64_t t = 0; t < kLength; ++t) d.q.Set(0, t, 0, 0, 1);
      d.k.Set(0, token, 0, 0, value);
      for (size_t shift : {0, 1}) {
        const AttentionHeadStats want = kernels::RunAttention(d.Problem())[0];
        const AttentionHeadStats h = RunOnDevice(d.Problem(), shift)[0];
        kernels::ExpectClose(h.logit_max, want.logit_max, 1e-4, "max");
        kernels::ExpectClose(h.logit_min, want.logit_min, 1e-4, "min");
        kernels::ExpectClose(h.entropy_sum, want.entropy_sum, 1e-2, "entropy");
        kernels::ExpectClose(h.lse_sum, want.lse_sum, 1e-2, "lse");
        kernels::ExpectClose(h.tied_rows, want.tied_rows, 0, "tied");
      }
    }
  }
}

TEST(AttentionCudaLaunch, EqualFromRunToRun) {
  FS_SKIP_WITHOUT_CUDA();
  for (int64_t dim : {64, 16}) {
    CaseOptions o;
    o.dim = dim;
    o.q_lens = {900, 900};
    const AttentionCase c(o);
    for (size_t shift : {0, 1}) {
      const std::vector<AttentionHeadStats> first = RunOnDevice(c.Problem(), shift);
      for (int i = 0; i < 5; ++i) {
        const std::vector<AttentionHeadStats> again = RunOnDevice(c.Problem(), shift);
        EXPECT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(first[0])), 0);
      }
    }
  }
}

TEST(AttentionCudaLaunch, BadOffsetsGiveNoRows) {
  FS_SKIP_WITHOUT_CUDA();
  CaseOptions packed;
  packed.storage = Storage::kPacked;
  AttentionCase c(packed);
  for (const std::vector<int32_t>& offsets :
       {std::vector<int32_t>{0, 40, 33}, {-1, 33, 66}, {0, 33, 67}, {0, 33, 1 << 30}}) {
    c.cu_q = offsets;
    const AttentionHeadStats h = RunOnDevice(c.Problem())[0];
    EXPECT_EQ(h.rows, 0);
    EXPECT_TRUE(std::isnan(h.rows_visited));
  }
}

// One captured graph serves steps that are sampled and steps that are not.
TEST(AttentionCudaLaunch, AFlagInACapturedGraphDecides) {
  FS_SKIP_WITHOUT_CUDA();
  for (Storage storage : {Storage::kBshd, Storage::kPacked}) {
    CaseOptions o;
    o.storage = storage;
    o.q_lens = {150, 150};
    const AttentionCase c(o);
    DeviceCopies copies;
    const kernels::AttentionProblem p = copies.Copy(c.Problem());
    const size_t bytes = 4 * sizeof(AttentionHeadStats);
    AttentionHeadStats* out = nullptr;
    ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&out), bytes), cudaSuccess);
    auto* flag = static_cast<uint32_t*>(copies.Allocate(4));
    const kernels::Workspace workspace = AttentionWorkspace(p, &copies);
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_TRUE(LaunchAttentionProbe(p, flag, out, workspace, stream).ok());
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    const std::vector<AttentionHeadStats> want = RunOnDevice(c.Problem());
    for (uint32_t on : {0u, 1u, 0u, 1u}) {
      std::fill(out, out + 4, AttentionHeadStats{});
      ASSERT_EQ(cudaMemcpyAsync(flag, &on, 4, cudaMemcpyHostToDevice, stream), cudaSuccess);
      ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(out[1].rows, on != 0 ? want[1].rows : 0);
      if (on != 0) {
        EXPECT_EQ(std::memcmp(out, want.data(), bytes), 0);
      }
    }
    EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(out), cudaSuccess);
  }
}

// More calls than one launch takes, of other shapes, packed ones among them: the bits of calls one by one.
TEST(AttentionCudaLaunch, ManyCallsFinishedAtOnce) {
  FS_SKIP_WITHOUT_CUDA();
  constexpr size_t kCalls = 35;
  DeviceCopies copies;
  std::vector<AttentionToFinish> rest(kCalls);
  std::vector<AttentionHeadStats*> out(kCalls);
  std::vector<std::vector<AttentionHeadStats>> want;
  for (size_t i = 0; i < kCalls; ++i) {
    CaseOptions o;
    o.storage = i % 3 == 0 ? Storage::kPacked : Storage::kBshd;
    o.dim = i % 2 == 0 ? 64 : 128;
    const auto length = static_cast<int64_t>(20 + 31 * i);
    o.q_lens = {length, length};
    const AttentionCase c(o);
    want.push_back(RunOnDevice(c.Problem()));
    const kernels::AttentionProblem p = copies.Copy(c.Problem());
    out[i] = static_cast<AttentionHeadStats*>(copies.Allocate(want[i].size() * sizeof(AttentionHeadStats)));
    ASSERT_TRUE(
        LaunchAttentionScores(p, nullptr, out[i], AttentionWorkspace(p, &copies), nullptr, &rest[i]).ok());
  }
  ASSERT_EQ(LaunchAttentionFinish(rest.data(), kCalls, nullptr), cudaSuccess);
  for (size_t i = 0; i < kCalls; ++i) {
    std::vector<AttentionHeadStats> got(want[i].size());
    const size_t bytes = got.size() * sizeof(got[0]);
    ASSERT_EQ(cudaMemcpy(got.data(), out[i], bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(std::memcmp(got.data(), want[i].data(), bytes), 0) << i;
  }
}

// Offsets past 2^31 elements: the second sequence of a strided tensor.
TEST(AttentionCudaLaunch, MoreThanTwoToThe31Elements) {
  FS_SKIP_WITHOUT_CUDA();
  size_t free_bytes = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  const int64_t apart = (int64_t{1} << 31) + 4096;
  if (free_bytes < (size_t{6} << 30)) GTEST_SKIP() << "needs 6 GiB of device memory";
  CaseOptions o;
  o.dim = 64;
  o.q_lens = {200, 200};
  const AttentionCase c(o);
  for (int64_t shift : {0, 1}) {
    DeviceCopies copies;
    auto* far = static_cast<unsigned char*>(copies.Allocate(static_cast<size_t>(apart + (1 << 20)) * 2));
    kernels::AttentionProblem p = copies.Copy(c.Problem());
    const auto spread = [&](kernels::TensorView* t, int64_t at) {
      const size_t bytes = static_cast<size_t>(t->batch_stride) * 2;
      for (int64_t b = 0; b < 2; ++b) {
        ASSERT_EQ(cudaMemcpy(far + 2 * (at + shift + b * apart),
                             static_cast<const unsigned char*>(t->data) + static_cast<size_t>(b) * bytes,
                             bytes, cudaMemcpyDeviceToDevice),
                  cudaSuccess);
      }
      t->data = far + 2 * (at + shift);
      t->batch_stride = apart;
    };
    spread(&p.q, 0);
    spread(&p.k, 1 << 18);
    std::vector<AttentionHeadStats> got(4);
    auto* out = static_cast<AttentionHeadStats*>(copies.Allocate(4 * sizeof(AttentionHeadStats)));
    ASSERT_TRUE(LaunchAttentionProbe(p, nullptr, out, AttentionWorkspace(p, &copies), nullptr).ok());
    ASSERT_EQ(cudaMemcpy(got.data(), out, 4 * sizeof(got[0]), cudaMemcpyDeviceToHost), cudaSuccess);
    const reference::Attention a = c.Reference();
    for (int64_t h = 0; h < 4; ++h) kernels::ExpectHead(got[static_cast<size_t>(h)], a, h);
  }
}

TEST(AttentionCudaLaunch, RefusesBadArguments) {
  const AttentionCase c(CaseOptions{});
  kernels::AttentionProblem p = c.Problem();
  AttentionHeadStats out[4];
  EXPECT_EQ(LaunchAttentionProbe(p, nullptr, nullptr, {}, nullptr).status,
            kernels::KernelStatus::kNullPointer);
  EXPECT_EQ(LaunchAttentionProbe(p, nullptr, out, {}, nullptr).status,
            kernels::KernelStatus::kWorkspaceTooSmall);
  p.scale = NAN;
  EXPECT_EQ(LaunchAttentionProbe(p, nullptr, out, {}, nullptr).status, kernels::KernelStatus::kBadOption);
  p = c.Problem();
  p.q.seq = p.k.seq = int64_t{1} << 30;
  EXPECT_EQ(LaunchAttentionProbe(p, nullptr, out, {}, nullptr).status, kernels::KernelStatus::kBadShape);
  EXPECT_EQ(AttentionProbeWorkspaceBytes(p), 0);
}

}  // namespace
}  // namespace foreshock::cuda
