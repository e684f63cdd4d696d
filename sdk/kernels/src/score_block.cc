#include "score_block.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dot.h"
#include "load.h"

namespace foreshock::kernels {
namespace {

double DotFloat(const float* a, const float* b, int64_t padded) {
  float lane[kDotLanes] = {};
  for (int64_t i = 0; i < padded; i += kDotLanes) {
    for (int64_t l = 0; l < kDotLanes; ++l) lane[l] += a[i + l] * b[i + l];
  }
  double sum[4] = {0, 0, 0, 0};
  for (int64_t l = 0; l < kDotLanes; l += 4) {
    for (int64_t k = 0; k < 4; ++k) sum[k] += static_cast<double>(lane[l + k]);
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Adds masks and biases of one entry to *score; false: masked.
class EntryBias {
 public:
  explicit EntryBias(const ScoreRow& row) : p_(*row.problem) {
    const int64_t b = row.sequence->index;
    keep_ = p_.keep_mask.Offset(b, row.head, row.row);
    additive_ = p_.additive_mask.Offset(b, row.head, row.row);
    bias_ = p_.bias.Offset(b, row.head, row.row);
    position_ = PositionOf(p_, *row.sequence, row.row);
    slope_ = p_.alibi_slopes == nullptr ? 0 : static_cast<double>(p_.alibi_slopes[row.head]);
    any_ = p_.keep_mask.data != nullptr || p_.additive_mask.data != nullptr || p_.bias.data != nullptr ||
           p_.alibi_slopes != nullptr;
  }

  bool Apply(int64_t key, double* score) const {
    if (!any_) return true;
    if (p_.keep_mask.data != nullptr) {
      const auto* keep = static_cast<const uint8_t*>(p_.keep_mask.data);
      if (keep[keep_ + key * p_.keep_mask.key_stride] == 0) return false;
    }
    if (p_.additive_mask.data != nullptr) {
      const ScoreView& mask = p_.additive_mask;
      const double value = LoadDouble(mask.data, mask.dtype, additive_ + key * mask.key_stride);
      if (value <= kMaskedBelow) return false;
      *score += value;
    }
    if (p_.bias.data != nullptr) {
      const double value = LoadDouble(p_.bias.data, p_.bias.dtype, bias_ + key * p_.bias.key_stride);
      if (value == -std::numeric_limits<double>::infinity()) return false;
      *score += value;
    }
    if (p_.alibi_slopes != nullptr) *score -= slope_ * static_cast<double>(std::abs(position_ - key));
    return true;
  }

 private:
  const AttentionProblem& p_;
  int64_t keep_ = 0;
  int64_t additive_ = 0;
  int64_t bias_ = 0;
  int64_t position_ = 0;
  double slope_ = 0;
  bool any_ = false;
};

// The precision is a template parameter so that the inner loop holds one dot product, inlined.
template <DotPrecision kPrecision>
void Compute(const ScoreRow& row, int64_t first_key, int64_t count, const float* k_tile, ScoreBlock* block) {
  const AttentionProblem& p = *row.problem;
  const int64_t padded = PaddedDim(p.q.dim);
  const auto scale = static_cast<double>(p.scale);
  const auto cap = static_cast<double>(p.softcap);
  const EntryBias entry_bias(row);
  const int64_t begin = std::max(row.keys.first - first_key, int64_t{0});
  const int64_t end = std::min(row.keys.last - first_key, count);
  int32_t n = 0;
  for (int64_t j = begin; j < end; ++j) {
    const float* k = k_tile + j * padded;
    double score = 0;
    if constexpr (kPrecision == DotPrecision::kDouble) {
      score = scale * DotInDouble(row.q, k, padded);
    } else {
      score = scale * DotFloat(row.q, k, padded);
    }
    if (cap > 0) score = cap * std::tanh(score / cap);
    block->capped[n] = score;
    if (!entry_bias.Apply(first_key + j, &score)) continue;
    block->score[n] = score;
    block->key[n] = static_cast<int32_t>(j);
    ++n;
  }
  block->count = n;
}

}  // namespace

void LoadRows(const TensorView& t, int64_t batch, int64_t first, int64_t count, int64_t step, int64_t head,
              float* out) {
  const int64_t padded = PaddedDim(t.dim);
  WithElements(t.data, t.dtype, [&](const auto* data) {
    for (int64_t i = 0; i < count; ++i) {
      float* row = out + i * padded;
      LoadStrided(data + t.Offset(batch, first + i * step, head), t.dim, t.dim_stride, row);
      std::fill(row + t.dim, row + padded, 0.0f);
    }
  });
}

void ComputeScores(const ScoreRow& row, int64_t first_key, int64_t count, const float* k_tile,
                   DotPrecision precision, ScoreBlock* block) {
  if (precision == DotPrecision::kDouble) {
    Compute<DotPrecision::kDouble>(row, first_key, count, k_tile, block);
  } else {
    Compute<DotPrecision::kFloat>(row, first_key, count, k_tile, block);
  }
}

}  // namespace foreshock::kernels
