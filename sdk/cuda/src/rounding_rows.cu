// One block recomputes a tile of sampled rows of one head in fp32. A first pass over the keys finds each
// row's softmax sum; a second forms P and, with gradients, P' = P times the soft-cap's slope and P' (dP -
// delta), and multiplies them with V and K: what comes out is O, P' K and dQ, which are compared with what is
// stored.
//
// Threads stand in a grid of rows / 4 by 16: thread (y, x) owns rows y + i (rows / 4), and of a tile of keys
// columns x + 16 j, of an output row the four elements from 4 x + 64 j on. All products are fp32
// multiply-adds over operands in shared memory, so that no dtype loses bits.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "attention_scores.cuh"
#include "kernel_launch.cuh"
#include "rounding_elements.cuh"
#include "rounding_rows.h"

namespace foreshock::cuda {
namespace {

using kernels::RoundingProblem;
using kernels::TensorView;

constexpr int kRowsEach = 4;  // of a thread
// P of a masked entry: what it is multiplied with must not count even where that is NaN.
constexpr uint32_t kMaskedP = 0x80000000u;

// kDim covers the head sizes of q, k and of v. Rows are 4 apart from whole banks, so that 8 of them can be
// read at once.
template <int kRows, int kKeys, int kDim>
struct RoundingShared {
  using Rows = float[kRows][kDim + 4];
  using Keys = float[kKeys][kDim + 4];
  using Tile = float[kRows][kKeys + 4];
  Rows q;
  Rows d_o;
  Keys k;
  Keys v;
  Tile p;        // probabilities
  Tile weight;   // P' (dP - delta)
  Tile p_slope;  // P'; last, because without a soft-cap it is P and there is no room for it
};

// Eight consecutive elements from an aligned place.
__device__ __forceinline__ void LoadEight(const TensorView& t, int64_t at, float (&x)[8]) {
  if (t.dtype == kernels::DType::kFp32) {
    const auto* from = reinterpret_cast<const float4*>(static_cast<const float*>(t.data) + at);
    const float4 a = from[0];
    const float4 b = from[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w, x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
    return;
  }
  const uint4 raw = *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(t.data) + at);
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
  const bool bf16 = t.dtype == kernels::DType::kBf16;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const __half2 half = *reinterpret_cast<const __half2*>(&words[i]);
    x[2 * i] = bf16 ? Float(words[i] << 16) : __low2float(half);
    x[2 * i + 1] = bf16 ? Float(words[i] & 0xffff0000u) : __high2float(half);
  }
}

template <int kRows, int kKeys, int kDim>
class RoundingTile {
 public:
  static constexpr int kLanes = 16;  // threads of a row
  static constexpr int kThreads = kRows / kRowsEach * kLanes;
  static constexpr int kColumnsEach = kKeys / 16;
  static constexpr int kBlocks = kDim / 64;  // of 64 elements of an output row
  using Shared = RoundingShared<kRows, kKeys, kDim>;
  using Entries = float[kRowsEach][kColumnsEach];
  using Outputs = float[kRowsEach][4 * kBlocks];

  __device__ RoundingTile(const RoundingProblem& p, const Tile& tile, Shared& shared)
      : p_(p),
        a_(p.attention),
        tile_(tile),
        s_(shared),
        x_(threadIdx.x % kLanes),
        y_(threadIdx.x / kLanes),
        backward_(p.d_o.data != nullptr),
        gradients_(backward_ && p.dq.data != nullptr),
        plain_(IsPlain(a_)),
        own_(a_, tile, [this](int i) { return RowOf(i); }) {}

  __device__ void Run(RoundingRecord* records) {
    __syncthreads();  // the tile before is done with shared memory
    LoadQueries(a_.q, s_.q);
    if (backward_) LoadQueries(p_.d_o, s_.d_o);
    FindSums();
    FindDeltas();
    Accumulate();
    Finish(records);
  }

 private:
  __device__ int RowOf(int i) const { return y_ + i * (kRows / kRowsEach); }

  // kCount rows as fp32, zeros beyond the tensor. True: all that this thread loaded is finite.
  template <int kCount>
  __device__ bool Load(const TensorView& t, int64_t first, int64_t stride, int rows,
                       float (&to)[kCount][kDim + 4]) const {
    bool finite = true;
    if (IsVectorized(t, 8) && stride % 8 == 0) {
      for (int i = static_cast<int>(threadIdx.x); i < kCount * kDim / 8; i += kThreads) {
        const int r = i / (kDim / 8);
        const int d = i % (kDim / 8) * 8;
        float x[8] = {};
        if (r < rows && d < t.dim) LoadEight(t, first + r * stride + d, x);
#pragma unroll
        for (int e = 0; e < 8; ++e) finite &= isfinite(x[e]);
        auto* row = reinterpret_cast<float4*>(&to[r][d]);
        row[0] = make_float4(x[0], x[1], x[2], x[3]);
        row[1] = make_float4(x[4], x[5], x[6], x[7]);
      }
      return finite;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kCount * kDim; i += kThreads) {
      const int r = i / kDim;
      const int d = i % kDim;
      const bool inside = r < rows && d < t.dim;
      const float x = inside ? LoadAny(t.data, t.dtype, first + r * stride + d * t.dim_stride) : 0;
      finite &= isfinite(x);
      to[r][d] = x;
    }
    return finite;
  }
  __device__ void LoadQueries(const TensorView& t, typename Shared::Rows& to) const {
    Load(t, t.Offset(tile_.batch, tile_.q_begin + tile_.first_row, tile_.head),
         t.seq_stride * a_.sampling.row_every, tile_.rows, to);
  }
  __device__ bool LoadKeys(const TensorView& t, int key, typename Shared::Keys& to) const {
    return Load(t, t.Offset(tile_.batch, tile_.k_begin + key, own_.kv_head), t.seq_stride, tile_.k_len - key,
                to);
  }

  // Products of this thread's rows and keys.
  __device__ void Products(const typename Shared::Rows& rows, const typename Shared::Keys& keys,
                           Entries& out) const {
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
      for (int j = 0; j < kColumnsEach; ++j) out[i][j] = 0;
    }
#pragma unroll 4
    for (int d = 0; d < kDim; d += 4) {
      float4 b[kColumnsEach];
#pragma unroll
      for (int j = 0; j < kColumnsEach; ++j) b[j] = *reinterpret_cast<const float4*>(&keys[x_ + 16 * j][d]);
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        const float4 a = *reinterpret_cast<const float4*>(&rows[RowOf(i)][d]);
#pragma unroll
        for (int j = 0; j < kColumnsEach; ++j) {
          out[i][j] = fmaf(a.x, b[j].x, fmaf(a.y, b[j].y, fmaf(a.z, b[j].z, fmaf(a.w, b[j].w, out[i][j]))));
        }
      }
    }
  }

  // The scores of this thread's entries, kMaskedBits where masked; slope: of the soft-cap.
  __device__ void Scores(int key, Entries& s, Entries& slope) const {
    Products(s_.q, s_.k, s);
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
      for (int j = 0; j < kColumnsEach; ++j) {
        const int at = key + x_ + 16 * j;
        const float capped = a_.softcap > 0 ? tanhf(a_.scale * s[i][j] / a_.softcap) : 0;
        slope[i][j] = 1 - capped * capped;
        const bool seen = at >= own_.keys[i].first && at < own_.keys[i].last;
        if (!seen) {
          s[i][j] = Float(kMaskedBits);
        } else if (plain_) {
          s[i][j] *= a_.scale;
        } else {
          s[i][j] = ScoreOf(a_, tile_, own_.row[i], at, s[i][j]);
        }
      }
    }
  }

  // Each row's largest score, runner-up, count of keys, and sum of e^(s - largest) with the learned sinks.
  __device__ void FindSums() {
    RowScores mine[kRowsEach];
    for (int key = own_.all.first; key < own_.all.last; key += kKeys) {
      __syncthreads();
      LoadKeys(a_.k, key, s_.k);
      __syncthreads();
      Entries s;
      Entries slope;
      Scores(key, s, slope);
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        const float before = mine[i].largest;
#pragma unroll
        for (int j = 0; j < kColumnsEach; ++j) {
          if (Bits(s[i][j]) != kMaskedBits) mine[i].See(s[i][j]);
        }
        float add = 0;
#pragma unroll
        for (int j = 0; j < kColumnsEach; ++j) {
          if (Bits(s[i][j]) != kMaskedBits) add += expf(s[i][j] - mine[i].largest);
        }
        mine[i].Add(before, add);
      }
    }
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) softmax_[i] = Combine<kLanes>(a_, tile_.head, mine[i]);
  }

  // delta_ref = rowsum(dO O), O as forward stored it; the same in all threads of a row.
  __device__ void FindDeltas() {
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      double sum = 0;
      if (backward_ && RowOf(i) < tile_.rows) {
        const int64_t o = OutputRow(p_.o, i);
        for (int d = x_; d < p_.v.dim; d += kLanes) {
          sum += static_cast<double>(s_.d_o[RowOf(i)][d]) * Stored(p_.o, o, d);
        }
      }
      delta_[i] = RowSum<kLanes>(sum);
    }
  }
  __device__ int64_t OutputRow(const TensorView& t, int i) const {
    return t.Offset(tile_.batch, tile_.q_begin + own_.row[i], tile_.head);
  }

  // Second pass: o = P V, pk = P' K, dq = P' (dP - delta) K.
  __device__ void Accumulate() {
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
      for (int d = 0; d < 4 * kBlocks; ++d) o_[i][d] = pk_[i][d] = dq_[i][d] = 0;
    }
    for (int key = own_.all.first; key < own_.all.last; key += kKeys) {
      __syncthreads();
      bool finite = LoadKeys(a_.k, key, s_.k);
      finite &= LoadKeys(p_.v, key, s_.v);
      const bool clean = __syncthreads_and(finite);
      Weights(key);
      __syncthreads();
      AddTile(clean, s_.p, s_.v, o_);
      if (!gradients_) continue;
      AddTile(clean, a_.softcap > 0 ? s_.p_slope : s_.p, s_.k, pk_);
      AddTile(clean, s_.weight, s_.k, dq_);
    }
  }

  // Fills the tile's P, P' and weights.
  __device__ void Weights(int key) {
    Entries s;
    Entries slope;
    Entries dp;
    Scores(key, s, slope);
    if (gradients_) Products(s_.d_o, s_.v, dp);
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      const SplitDelta delta(delta_[i]);
#pragma unroll
      for (int j = 0; j < kColumnsEach; ++j) {
        const bool masked = Bits(s[i][j]) == kMaskedBits;
        const float p = masked ? Float(kMaskedP) : expf(s[i][j] - softmax_[i].top) * softmax_[i].inverse;
        const int column = x_ + 16 * j;
        s_.p[RowOf(i)][column] = p;
        if (!gradients_) continue;
        const float p_slope = masked ? p : p * slope[i][j];
        if (a_.softcap > 0) s_.p_slope[RowOf(i)][column] = p_slope;
        s_.weight[RowOf(i)][column] = masked ? 0 : p_slope * delta.TakenFrom(dp[i][j]);
      }
    }
  }

  // sums += weights x rows of V or K. Not clean: some of those rows are not finite, and masked entries must
  // be left out one by one.
  __device__ void AddTile(bool clean, const typename Shared::Tile& weights,
                          const typename Shared::Keys& values, Outputs& sums) const {
#pragma unroll 2
    for (int key = 0; key < kKeys; key += 4) {
      float w[kRowsEach][4];
      bool skip[kRowsEach][4] = {};
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        const float4 four = *reinterpret_cast<const float4*>(&weights[RowOf(i)][key]);
        w[i][0] = four.x, w[i][1] = four.y, w[i][2] = four.z, w[i][3] = four.w;
        if (clean) continue;
#pragma unroll
        for (int n = 0; n < 4; ++n) skip[i][n] = Bits(s_.p[RowOf(i)][key + n]) == kMaskedP;
      }
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          const float4 v = *reinterpret_cast<const float4*>(&values[key + n][4 * x_ + 64 * b]);
#pragma unroll
          for (int i = 0; i < kRowsEach; ++i) {
            if (skip[i][n]) continue;
            sums[i][4 * b] = fmaf(w[i][n], v.x, sums[i][4 * b]);
            sums[i][4 * b + 1] = fmaf(w[i][n], v.y, sums[i][4 * b + 1]);
            sums[i][4 * b + 2] = fmaf(w[i][n], v.z, sums[i][4 * b + 2]);
            sums[i][4 * b + 3] = fmaf(w[i][n], v.w, sums[i][4 * b + 3]);
          }
        }
      }
    }
  }

  __device__ void Finish(RoundingRecord* records) {
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      RoundingRecord mine{};
      const bool counts = RowOf(i) < tile_.rows && softmax_[i].count >= 2;
      norm2_ = 0;
      if (counts) FinishOutput(i, &mine);
      if (counts && gradients_) FinishDelta(i, &mine);
      RoundingRecord out = Finished<kLanes>(mine, norm2_, delta_[i], a_.scale);
      out.counts = counts;
      out.tied = softmax_[i].tied;
      if (x_ == 0) records[RowOf(i)] = out;
    }
  }

  // This thread's elements of an output row: f(element, its place in the sums).
  template <typename F>
  __device__ void ForEachElement(int64_t dim, F&& f) const {
#pragma unroll
    for (int n = 0; n < 4 * kBlocks; ++n) {
      const int d = 64 * (n / 4) + 4 * x_ + n % 4;
      if (d < dim) f(d, n);
    }
  }

  __device__ void FinishOutput(int i, RoundingRecord* out) {
    const int64_t o = OutputRow(p_.o, i);
    ForEachElement(p_.v.dim, [&](int d, int n) {
      AddOutputElement(Stored(p_.o, o, d), o_[i][n], backward_ ? static_cast<double>(s_.d_o[RowOf(i)][d]) : 0,
                       out);
    });
  }

  // Leaves (dQ - dQ_ref).(P K) in out->delta_error and ||P K||^2 in norm2_.
  __device__ void FinishDelta(int i, RoundingRecord* out) {
    const int64_t dq = OutputRow(p_.dq, i);
    ForEachElement(a_.q.dim, [&](int d, int n) {
      const double exact = static_cast<double>(a_.scale) * static_cast<double>(dq_[i][n]);
      const auto pk = static_cast<double>(pk_[i][n]);
      out->delta_error += (Stored(p_.dq, dq, d) - exact) * pk;
      norm2_ += pk * pk;
    });
  }

  const RoundingProblem& p_;
  const AttentionProblem& a_;
  const Tile& tile_;
  Shared& s_;
  const int x_;
  const int y_;
  const bool backward_;
  const bool gradients_;
  const bool plain_;  // scores are scale * q.k and nothing else
  const OwnRows<kRowsEach> own_;
  RowSoftmax softmax_[kRowsEach];
  double delta_[kRowsEach];
  double norm2_ = 0;
  Outputs o_;
  Outputs pk_;
  Outputs dq_;
};

template <int kRows, int kKeys, int kDim>
__global__ void __launch_bounds__(kRows * 4)
    RoundingRows(const __grid_constant__ RoundingProblem p, const __grid_constant__ TileList list,
                 const uint32_t* enabled, RoundingRecord* records, bool only_redo) {
  if (enabled != nullptr && *enabled == 0) return;
  extern __shared__ __align__(16) unsigned char raw[];
  auto& shared = *reinterpret_cast<RoundingShared<kRows, kKeys, kDim>*>(raw);
  const int64_t items = ItemCount(list);
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const Tile tile = ItemAt(p.attention, list, item);
    RoundingRecord* const out = records + (tile.head * list.max_tiles + tile.partial) * kRows;
    if (only_redo && !out->redo) continue;
    RoundingTile<kRows, kKeys, kDim>(p, tile, shared).Run(out);
  }
}

int64_t WidestDim(const RoundingProblem& p) {
  return p.attention.q.dim > p.v.dim ? p.attention.q.dim : p.v.dim;
}

template <int kRows, int kKeys, int kDim>
int Launch(const RoundingProblem& p, const TileList& list, const uint32_t* enabled, RoundingRecord* records,
           bool only_redo, cudaStream_t stream) {
  using Shared = RoundingShared<kRows, kKeys, kDim>;
  // What every device from sm_80 on gives a block.
  static_assert(sizeof(Shared) <= 99 * 1024);
  constexpr auto kernel = RoundingRows<kRows, kKeys, kDim>;
  const bool capped = p.attention.softcap > 0;
  const size_t shared = capped ? sizeof(Shared) : sizeof(Shared) - sizeof(typename Shared::Tile);
  const cudaError_t error = AllowShared<kernel>(sizeof(Shared));
  if (error != cudaSuccess) return error;
  // Marked tiles are few: a small grid looks for them.
  const int64_t most = only_redo ? 256 : int64_t{1} << 24;
  const auto blocks = static_cast<unsigned>(list.Items() < most ? list.Items() : most);
  kernel<<<blocks, kRows * 4, shared, stream>>>(p, list, enabled, records, only_redo);
  return cudaGetLastError();
}

}  // namespace

int RoundingTileRows(const RoundingProblem& p) { return WidestDim(p) <= 128 ? 32 : 16; }

int LaunchRoundingRows(const RoundingProblem& p, const TileList& list, const uint32_t* enabled,
                       RoundingRecord* records, bool only_redo, cudaStream_t stream) {
  if (list.Items() == 0) return cudaSuccess;
  const int64_t dim = WidestDim(p);
  if (dim <= 64) return Launch<32, 64, 64>(p, list, enabled, records, only_redo, stream);
  if (dim <= 128) return Launch<32, 32, 128>(p, list, enabled, records, only_redo, stream);
  return Launch<16, 16, 256>(p, list, enabled, records, only_redo, stream);
}

}  // namespace foreshock::cuda
