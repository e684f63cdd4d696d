// Attention problems in any dtype and layout beside the reference's view of the same stored numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "foreshock/sdk/attention_probe.h"
#include "foreshock/sdk/rounding_probe.h"
#include "reference.h"

namespace foreshock::kernels {

enum class Storage : uint8_t { kBshd, kBhsd, kPacked, kGappy };

// One activation tensor. Values are set by (sequence, token, head, d); dense storages need equal lengths.
class StoredTensor {
 public:
  StoredTensor() = default;
  StoredTensor(Storage storage, DType dtype, const std::vector<int64_t>& lengths, int64_t heads, int64_t dim)
      : storage_(storage), dtype_(dtype), heads_(heads), dim_(dim) {
    for (int64_t length : lengths) {
      begins_.push_back(tokens_);
      tokens_ += length;
    }
    const auto batch = static_cast<int64_t>(lengths.size());
    const int64_t length = lengths.empty() ? 0 : lengths[0];
    view_ = storage == Storage::kBhsd     ? Bhsd(nullptr, dtype, batch, length, heads, dim)
            : storage == Storage::kPacked ? Packed(nullptr, dtype, tokens_, heads, dim)
                                          : Bshd(nullptr, dtype, batch, length, heads, dim);
    if (storage == Storage::kGappy) {
      // Every axis strided, the head dimension too, as in a fused [.., dim, 3] buffer.
      view_.dim_stride = 3;
      view_.head_stride = 3 * dim + 5;
      view_.seq_stride = view_.head_stride * heads + 1;
      view_.batch_stride = view_.seq_stride * length + 7;
    }
    const int64_t elements =
        storage == Storage::kGappy ? batch * view_.batch_stride + 1 : tokens_ * heads * dim;
    bytes_.assign(static_cast<size_t>(elements + 1) * SizeOf(dtype), 0xff);
  }

  void Set(int64_t sequence, int64_t token, int64_t head, int64_t d, double value) {
    StoreFloat(bytes_.data(), dtype_, At(sequence, token, head, d), static_cast<float>(value));
  }
  double Get(int64_t sequence, int64_t token, int64_t head, int64_t d) const {
    return LoadDouble(bytes_.data(), dtype_, At(sequence, token, head, d));
  }
  TensorView view() const {
    TensorView v = view_;
    v.data = bytes_.empty() ? nullptr : bytes_.data();
    return v;
  }
  bool empty() const { return bytes_.empty(); }
  // [len][heads][dim] of one sequence.
  std::vector<double> Read(int64_t sequence, int64_t length) const {
    std::vector<double> out;
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t h = 0; h < heads_; ++h) {
        for (int64_t d = 0; d < dim_; ++d) out.push_back(Get(sequence, t, h, d));
      }
    }
    return out;
  }

 private:
  int64_t At(int64_t sequence, int64_t token, int64_t head, int64_t d) const {
    const bool packed = storage_ == Storage::kPacked;
    return view_.Offset(packed ? 0 : sequence,
                        packed ? begins_[static_cast<size_t>(sequence)] + token : token, head) +
           d * view_.dim_stride;
  }

  Storage storage_ = Storage::kBshd;
  DType dtype_ = DType::kFp32;
  int64_t heads_ = 1;
  int64_t dim_ = 1;
  int64_t tokens_ = 0;
  std::vector<int64_t> begins_;
  TensorView view_;
  std::vector<unsigned char> bytes_;
};

struct CaseOptions {
  Storage storage = Storage::kBshd;
  DType dtype = DType::kBf16;
  std::vector<int64_t> q_lens = {33, 33};
  std::vector<int64_t> k_lens = {};  // empty: the same
  int64_t q_heads = 4;
  int64_t kv_heads = 2;
  int64_t dim = 16;
  int64_t v_dim = 16;
  double size = 1;  // standard deviation of q and k
  float softcap = 0;
  bool causal = true;
  uint64_t seed = 1;
};

class AttentionCase {
 public:
  explicit AttentionCase(CaseOptions with) : options(std::move(with)) {
    if (options.k_lens.empty()) options.k_lens = options.q_lens;
    q = StoredTensor(options.storage, options.dtype, options.q_lens, options.q_heads, options.dim);
    k = StoredTensor(options.storage, options.dtype, options.k_lens, options.kv_heads, options.dim);
    v = StoredTensor(options.storage, options.dtype, options.k_lens, options.kv_heads, options.v_dim);
    o = StoredTensor(options.storage, options.dtype, options.q_lens, options.q_heads, options.v_dim);
    d_o = o;
    dq = StoredTensor(options.storage, DType::kFp32, options.q_lens, options.q_heads, options.dim);
    Fill(&q, options.q_lens, options.q_heads, options.dim, options.size);
    Fill(&k, options.k_lens, options.kv_heads, options.dim, options.size);
    Fill(&v, options.k_lens, options.kv_heads, options.v_dim, 1);
    Fill(&d_o, options.q_lens, options.q_heads, options.v_dim, 1e-3);
    Fill(&o, options.q_lens, options.q_heads, options.v_dim, 1);
    Fill(&dq, options.q_lens, options.q_heads, options.dim, 1e-3);
    problem.softcap = options.softcap;
    problem.causal = options.causal;
    problem.scale = 1 / std::sqrt(static_cast<float>(options.dim));
    cu_q = Offsets(options.q_lens);
    cu_k = Offsets(options.k_lens);
  }

  int64_t sequences() const { return static_cast<int64_t>(options.q_lens.size()); }

  // The kernels' problem over the present contents.
  AttentionProblem Problem() const {
    AttentionProblem p = problem;
    p.q = q.view();
    p.k = k.view();
    if (options.storage == Storage::kPacked) {
      p.cu_seqlens_q = cu_q.data();
      p.cu_seqlens_k = cu_k.data();
      p.n_sequences = sequences();
    }
    return p;
  }

  RoundingProblem Rounding() const { return {Problem(), v.view(), o.view(), d_o.view(), dq.view()}; }

  // The reference's problem; masks beyond causality and window are the test's own: it replaces valid or bias.
  reference::Attention Reference() const {
    reference::Attention r;
    r.q_heads = options.q_heads;
    r.kv_heads = options.kv_heads;
    r.dim = options.dim;
    r.v_dim = options.v_dim;
    r.scale = static_cast<double>(problem.scale);
    r.softcap = static_cast<double>(problem.softcap);
    for (int64_t b = 0; b < sequences(); ++b) {
      const int64_t ql = options.q_lens[static_cast<size_t>(b)];
      const int64_t kl = options.k_lens[static_cast<size_t>(b)];
      r.sequences.push_back({ql, kl, q.Read(b, ql), k.Read(b, kl), v.Read(b, kl), o.Read(b, ql),
                             d_o.Read(b, ql), dq.Read(b, ql)});
    }
    const AttentionProblem p = problem;
    const CaseOptions c = options;
    r.valid = [p, c](int64_t b, int64_t, int64_t i, int64_t j) {
      const auto s = static_cast<size_t>(b);
      const int64_t at =
          i + p.query_offset + (p.align == QueryAlign::kTopLeft ? 0 : c.k_lens[s] - c.q_lens[s]);
      if (p.causal && j > at) return false;
      if (p.window_left >= 0 && at - j > p.window_left) return false;
      return !(p.window_right >= 0 && j - at > p.window_right);
    };
    const RowSampling s = p.sampling;
    r.visited = [s](int64_t b, int64_t i) {
      if (b % s.sequence_every != s.sequence_offset % s.sequence_every) return false;
      return i % s.row_every == (s.row_offset + b / s.sequence_every) % s.row_every;
    };
    if (p.n_sinks > 0) {
      for (int64_t h = 0; h < options.q_heads; ++h) {
        r.sinks.emplace_back(p.sinks + h * p.n_sinks, p.sinks + (h + 1) * p.n_sinks);
      }
    }
    return r;
  }

  CaseOptions options;
  AttentionProblem problem;  // options beside the tensors: change them before Problem() and Reference()
  StoredTensor q, k, v, o, d_o, dq;
  std::vector<int32_t> cu_q, cu_k;

 private:
  void Fill(StoredTensor* t, const std::vector<int64_t>& lengths, int64_t heads, int64_t dim, double size) {
    std::mt19937_64 random(options.seed * 977 + ++filled_);
    std::normal_distribution<double> normal(0, size);
    for (size_t b = 0; b < lengths.size(); ++b) {
      for (int64_t i = 0; i < lengths[b] * heads * dim; ++i) {
        t->Set(static_cast<int64_t>(b), i / (heads * dim), i / dim % heads, i % dim, normal(random));
      }
    }
  }
  static std::vector<int32_t> Offsets(const std::vector<int64_t>& lengths) {
    std::vector<int32_t> out = {0};
    for (int64_t length : lengths) out.push_back(out.back() + static_cast<int32_t>(length));
    return out;
  }

  uint64_t filled_ = 0;
};

inline std::vector<AttentionHeadStats> RunAttention(const AttentionProblem& p,
                                                    KernelStatus* status = nullptr) {
  std::vector<AttentionHeadStats> heads(static_cast<size_t>(std::max<int64_t>(p.q.heads, 0)));
  std::vector<unsigned char> scratch(ProbeAttentionWorkspaceBytes(p) + 1);
  const KernelStatus got = ProbeAttention(p, heads.data(), {scratch.data() + 1, scratch.size() - 1});
  if (status != nullptr) *status = got;
  return heads;
}

inline std::vector<RoundingHeadStats> RunRounding(const RoundingProblem& p, KernelStatus* status = nullptr) {
  std::vector<RoundingHeadStats> heads(static_cast<size_t>(std::max<int64_t>(p.attention.q.heads, 0)));
  std::vector<unsigned char> scratch(ProbeRoundingWorkspaceBytes(p) + 1);
  const KernelStatus got = ProbeRounding(p, heads.data(), {scratch.data() + 1, scratch.size() - 1});
  if (status != nullptr) *status = got;
  return heads;
}

}  // namespace foreshock::kernels
