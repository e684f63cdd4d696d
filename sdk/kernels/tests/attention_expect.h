// Comparisons of attention statistics with the reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "attention_fixture.h"

namespace foreshock::kernels {

// Both NaN, or both within tolerance.
inline void ExpectClose(double got, double want, double tolerance, const char* what) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << what << ": " << got << ", want NaN";
  } else if (std::isinf(want)) {
    EXPECT_EQ(got, want) << what;
  } else {
    EXPECT_LE(std::abs(got - want), tolerance) << what << ": " << got << ", want " << want;
  }
}

// The largest sum |scale q_i k_i| of a head bounds the error of its scores.
inline double ScoreTolerance(const reference::Attention& a, int64_t head) {
  double most = 0;
  const int64_t kv = head / (a.q_heads / a.kv_heads);
  for (const reference::Sequence& s : a.sequences) {
    for (int64_t i = 0; i < s.q_len; ++i) {
      for (int64_t j = 0; j < s.k_len; ++j) {
        double sum = 0;
        for (int64_t d = 0; d < a.dim; ++d) {
          sum += std::abs(a.scale * s.q[static_cast<size_t>((i * a.q_heads + head) * a.dim + d)] *
                          s.k[static_cast<size_t>((j * a.kv_heads + kv) * a.dim + d)]);
        }
        if (std::isfinite(sum)) most = std::max(most, sum);
      }
    }
  }
  return (8 + static_cast<double>(a.dim) / 16) * 0x1p-24 * most;
}

inline void ExpectHead(const AttentionHeadStats& got, const reference::Attention& a, int64_t head) {
  SCOPED_TRACE(testing::Message() << "head " << head);
  const reference::HeadStats want = reference::AttentionStats(a, head);
  const double score = ScoreTolerance(a, head);
  const double n = want.rows;
  EXPECT_EQ(got.rows, want.rows);
  EXPECT_EQ(got.rows_visited, want.visited);
  ExpectClose(got.tied_rows, want.tied, want.gap_margin > 2 * score ? 0 : 1, "tied");
  ExpectClose(got.tied_rows_bf16, want.tied_bf16, 1,
              "tied bf16");  // a score near a rounding boundary may flip
  ExpectClose(got.unit_p_rows, want.unit_p, want.gap_margin > 2 * score ? 0 : 1, "unit p");
  ExpectClose(got.saturated_rows, want.saturated, want.gap_margin > 2 * score + 1e-6 ? 0 : 1, "saturated");
  ExpectClose(got.entropy_sum, want.entropy, 1e-4 * n, "entropy");
  ExpectClose(got.lse_sum, want.lse, (score + 1e-6) * n, "lse");
  ExpectClose(got.sink_weight_sum, want.sink, 1e-4 * n, "sink");
  ExpectClose(got.learned_sink_weight_sum, want.learned_sink, 1e-4 * n, "learned sink");
  if (want.rows == 0) return;
  ExpectClose(got.logit_max, want.largest, score, "logit max");
  ExpectClose(got.logit_min, want.smallest, score, "logit min");
}

inline void ExpectMatches(const AttentionCase& c) {
  KernelStatus status = KernelStatus::kOk;
  const std::vector<AttentionHeadStats> got = RunAttention(c.Problem(), &status);
  ASSERT_EQ(status, KernelStatus::kOk);
  const reference::Attention a = c.Reference();
  for (int64_t h = 0; h < a.q_heads; ++h) ExpectHead(got[static_cast<size_t>(h)], a, h);
}

}  // namespace foreshock::kernels
