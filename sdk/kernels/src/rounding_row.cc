#include "rounding_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dot.h"
#include "foreshock/sdk/dtype.h"

namespace foreshock::kernels {
namespace {

void Axpy(double factor, const float* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * static_cast<double>(x[i]);
}

// Loads a tile unless it holds those rows already.
void LoadTile(const TensorView& t, int64_t batch, int64_t first, int64_t count, int64_t head,
              CachedTile* tile) {
  if (tile->batch == batch && tile->first == first && tile->count == count && tile->head == head) return;
  LoadRows(t, batch, first, count, 1, head, tile->rows);
  *tile = {tile->rows, batch, first, count, head};
}

class RowWork {
 public:
  RowWork(const RoundingProblem& p, const Sequence& s, int64_t row, int64_t head, RoundingRowBuffers* b)
      : p_(p), s_(s), b_(*b), row_(row), head_(head), keys_(KeysOf(p.attention, s, row)) {
    kv_ = head / (p.attention.q.heads / p.attention.k.heads);
  }

  RoundingRow Run() {
    Scores();
    if (count_ < 2) return out_;
    out_.counts = true;
    Probabilities();
    Output();
    if (p_.d_o.data != nullptr) DeltaOfOutput();
    if (p_.d_o.data != nullptr && p_.dq.data != nullptr) DeltaError();
    return out_;
  }

 private:
  void LoadQueryRow(const TensorView& t, float* to) const {
    LoadRows(t, s_.batch, s_.q_begin + row_, 1, 1, head_, to);
  }

  // Calls f(first key, keys) for each tile of keys that the row may see. Tiles begin at multiples of
  // kBlockKeys, so that all rows of a sequence share them.
  template <typename F>
  void ForEachTile(F&& f) const {
    for (int64_t key = keys_.first / kBlockKeys * kBlockKeys; key < keys_.last; key += kBlockKeys) {
      f(key, std::min(kBlockKeys, s_.k_len - key));
    }
  }
  const float* LoadKeys(int64_t key, int64_t keys) {
    LoadTile(p_.attention.k, s_.batch, s_.k_begin + key, keys, kv_, &b_.k_tile);
    return b_.k_tile.rows;
  }
  const float* LoadValues(int64_t key, int64_t keys) {
    LoadTile(p_.v, s_.batch, s_.k_begin + key, keys, kv_, &b_.v_tile);
    return b_.v_tile.rows;
  }

  // Fills probability (still the score), slope and key.
  void Scores() {
    const AttentionProblem& a = p_.attention;
    LoadQueryRow(a.q, b_.q);
    const ScoreRow score_row{&a, &s_, b_.q, row_, head_, keys_};
    const auto cap = static_cast<double>(a.softcap);
    ForEachTile([&](int64_t key, int64_t keys) {
      ComputeScores(score_row, key, keys, LoadKeys(key, keys), DotPrecision::kDouble, b_.block);
      for (int32_t i = 0; i < b_.block->count; ++i, ++count_) {
        const double ratio = cap > 0 ? b_.block->capped[i] / cap : 0;
        b_.probability[count_] = b_.block->score[i];
        b_.slope[count_] = 1 - ratio * ratio;
        b_.key[count_] = static_cast<int32_t>(key) + b_.block->key[i];
      }
    });
  }

  void Probabilities() {
    double largest = -std::numeric_limits<double>::infinity();
    double second = largest;
    bool has_nan = false;
    for (int64_t i = 0; i < count_; ++i) {
      const double s = b_.probability[i];
      has_nan |= std::isnan(s);
      second = std::max(second, std::min(largest, s));
      largest = std::max(largest, s);
    }
    out_.tied = !has_nan && largest - second <= kTieGap;

    const AttentionProblem& a = p_.attention;
    const float* sinks = a.n_sinks == 0 ? nullptr : a.sinks + head_ * a.n_sinks;
    double top = largest;
    for (int32_t i = 0; i < a.n_sinks; ++i) top = std::max(top, static_cast<double>(sinks[i]));
    double sum = 0;
    for (int32_t i = 0; i < a.n_sinks; ++i) sum += std::exp(static_cast<double>(sinks[i]) - top);
    for (int64_t i = 0; i < count_; ++i) {
      b_.probability[i] = std::exp(b_.probability[i] - top);
      sum += b_.probability[i];
    }
    for (int64_t i = 0; i < count_; ++i) b_.probability[i] /= sum;
  }

  // O_ref and the output's error.
  void Output() {
    const int64_t dim = p_.v.dim;
    const int64_t padded = PaddedDim(dim);
    std::fill(b_.o_ref, b_.o_ref + dim, 0.0);
    int64_t i = 0;
    ForEachTile([&](int64_t key, int64_t keys) {
      const float* v_rows = LoadValues(key, keys);
      for (; i < count_ && b_.key[i] < key + keys; ++i) {
        Axpy(b_.probability[i], v_rows + (b_.key[i] - key) * padded, b_.o_ref, dim);
      }
    });
    LoadQueryRow(p_.o, b_.o);
    for (int64_t d = 0; d < dim; ++d) {
      const double exact = b_.o_ref[d];
      if (exact == 0) continue;
      const double error = static_cast<double>(b_.o[d]) - exact;
      out_.output_error += exact < 0 ? -error : error;
      out_.output_ulp += UlpBf16(exact);
      ++out_.output_elements;
    }
  }

  void DeltaOfOutput() {
    LoadQueryRow(p_.d_o, b_.d_o);
    for (int64_t d = 0; d < p_.v.dim; ++d) {
      const auto gradient = static_cast<double>(b_.d_o[d]);
      out_.delta_output += gradient * (static_cast<double>(b_.o[d]) - b_.o_ref[d]);
      out_.delta_exact += gradient * b_.o_ref[d];
      out_.delta_ref += gradient * static_cast<double>(b_.o[d]);
    }
  }

  // dQ_ref = scale sum_j P'_j (dP_j - delta_ref) K_j with P' = P times the soft-cap's slope.
  void DeltaError() {
    const AttentionProblem& a = p_.attention;
    const int64_t dim = a.q.dim;
    const auto scale = static_cast<double>(a.scale);
    std::fill(b_.dq_ref, b_.dq_ref + dim, 0.0);
    std::fill(b_.pk, b_.pk + dim, 0.0);
    int64_t i = 0;
    ForEachTile([&](int64_t key, int64_t keys) {
      const float* k_rows = LoadKeys(key, keys);
      const float* v_rows = LoadValues(key, keys);
      for (; i < count_ && b_.key[i] < key + keys; ++i) {
        const float* k = k_rows + (b_.key[i] - key) * PaddedDim(dim);
        const float* v = v_rows + (b_.key[i] - key) * PaddedDim(p_.v.dim);
        const double weight = b_.probability[i] * b_.slope[i];
        Axpy(weight, k, b_.pk, dim);
        Axpy(scale * weight * (DotInDouble(b_.d_o, v, p_.v.dim) - out_.delta_ref), k, b_.dq_ref, dim);
      }
    });
    LoadQueryRow(p_.dq, b_.dq);
    double along = 0;
    for (int64_t d = 0; d < dim; ++d) {
      along += (static_cast<double>(b_.dq[d]) - b_.dq_ref[d]) * b_.pk[d];
      out_.key_norm2 += b_.pk[d] * b_.pk[d];
    }
    out_.delta_error = -along / (scale * out_.key_norm2);
  }

  const RoundingProblem& p_;
  const Sequence& s_;
  RoundingRowBuffers& b_;
  int64_t row_;
  int64_t head_;
  int64_t kv_ = 0;
  KeyRange keys_;
  int64_t count_ = 0;
  RoundingRow out_;
};

}  // namespace

RoundingRowBuffers LayoutRoundingRow(const RoundingProblem& p, Arena* arena) {
  const int64_t dim = PaddedDim(p.attention.q.dim);
  const int64_t v_dim = PaddedDim(p.v.dim);
  const int64_t keys = p.attention.k.seq;
  RoundingRowBuffers b;
  b.q = arena->Take<float>(dim);
  b.o = arena->Take<float>(v_dim);
  b.d_o = arena->Take<float>(v_dim);
  b.dq = arena->Take<float>(dim);
  b.k_tile.rows = arena->Take<float>(kBlockKeys * dim);
  b.v_tile.rows = arena->Take<float>(kBlockKeys * v_dim);
  b.probability = arena->Take<double>(keys);
  b.slope = arena->Take<double>(keys);
  b.key = arena->Take<int32_t>(keys);
  b.o_ref = arena->Take<double>(v_dim);
  b.dq_ref = arena->Take<double>(dim);
  b.pk = arena->Take<double>(dim);
  b.block = arena->Take<ScoreBlock>(1);
  return b;
}

RoundingRow ComputeRoundingRow(const RoundingProblem& p, const Sequence& sequence, int64_t row, int64_t head,
                               RoundingRowBuffers* buffers) {
  return RowWork(p, sequence, row, head, buffers).Run();
}

}  // namespace foreshock::kernels
