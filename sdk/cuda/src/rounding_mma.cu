// The rounding probe's row kernel for bf16 on tensor cores: what rounding_rows.cu computes, where the scores
// are scale * q.k and nothing else and the products of the inputs are exact.
//
// A block of two warps takes 32 sampled rows of one head, a warp 16 of them. A first pass over the keys finds
// each row's softmax sum; a second forms P and, with gradients, W = P (dP - delta), and from them O = P V, P
// K and dQ = W K. Above head size 64 these do not fit a thread's registers together: O has a pass of its own.
//
// Products of bf16 are exact in fp32. P and W are not bf16: each is split into two (high + low, 16 bits
// and more), two products for one. Tensor cores truncate when they add, which over many keys would lean to
// one side, so a sum of 16 keys is added to a second one with rounding to nearest.
//
// A masked key whose K or V is not finite would spoil a product that the plain kernel leaves out. So when
// anything of a tile comes out not finite, the tile is marked `redo` and left to the plain kernel, which
// runs behind this one over marked tiles alone.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "attention_scores.cuh"
#include "kernel_launch.cuh"
#include "mma_sync.cuh"
#include "rounding_elements.cuh"
#include "rounding_rows.h"

namespace foreshock::cuda {
namespace {

using kernels::RoundingProblem;
using kernels::TensorView;

constexpr int kRows = 32;
constexpr int kKeys = 32;  // of a tile of K or V
constexpr int kThreads = 64;
constexpr int kBlocks = kKeys / 8;  // of 8 keys, as a product has columns

template <int kDim>
struct MmaShared {
  // 16 bytes more than whole banks, so that 8 rows lie in different ones.
  using Rows = __nv_bfloat16[kRows][kDim + 8];
  using Keys = __nv_bfloat16[kKeys][kDim + 8];
  Rows q;
  Rows d_o;
  Keys k[2];
  Keys v[2];
};

__device__ __forceinline__ void LoadTransposed4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// x = high + low, two neighbours each, as the tensor cores take them.
struct Split {
  uint32_t high[4];
  uint32_t low[4];
};
__device__ __forceinline__ void SplitPair(float a, float b, uint32_t* high, uint32_t* low) {
  const __nv_bfloat162 h = __floats2bfloat162_rn(a, b);
  const __nv_bfloat162 l = __floats2bfloat162_rn(a - __low2float(h), b - __high2float(h));
  *high = *reinterpret_cast<const uint32_t*>(&h);
  *low = *reinterpret_cast<const uint32_t*>(&l);
}

// kGradients: dO and dQ are there.
template <int kDim, bool kGradients>
class MmaTile {
 public:
  using Shared = MmaShared<kDim>;
  using Entries = float[kBlocks][4];             // of 8 keys: rows l/4 and l/4 + 8, keys 2 (l%4) and the next
  using Outputs = float[kDim / 8][4];            // of 8 elements, the same
  static constexpr int kPitch = (kDim + 8) * 2;  // bytes
  static constexpr int kLanes = 4;               // threads of a row

  __device__ MmaTile(const RoundingProblem& p, const Tile& tile, Shared& shared)
      : p_(p),
        a_(p.attention),
        tile_(tile),
        s_(shared),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        backward_(p.d_o.data != nullptr),
        own_(a_, tile, [this](int r) { return RowOf(r); }) {}

  __device__ void Run(RoundingRecord* records) {
    __syncthreads();  // the tile before is done with shared memory
    LoadRows(a_.q, s_.q);
    if (backward_) LoadRows(p_.d_o, s_.d_o);
    CommitCopies();
    FindSums();
    FindDeltas();
    if constexpr (kDim <= 64) {
      Outputs o, pk, dq;
      Accumulate<true, kGradients>(o, pk, dq);
      FinishOutput(o);
      if (kGradients) FinishDelta(pk, dq);
    } else {
      {
        Outputs o;
        Accumulate<true, false>(o, o, o);
        FinishOutput(o);
      }
      if (kGradients) {
        Outputs pk, dq;
        Accumulate<false, true>(pk, pk, dq);
        FinishDelta(pk, dq);
      }
    }
    const bool redo = __syncthreads_or(strange_);
    if (redo) {
      if (threadIdx.x == 0) records->redo = true;
      return;
    }
    Write(records);
  }

 private:
  // Of the tile: the row of this thread's sums r.
  __device__ int RowOf(int r) const { return 16 * warp_ + lane_ / 4 + 8 * r; }

  // `count` rows, zeros beyond the tensor.
  template <int kCount>
  __device__ void Load(const TensorView& t, int64_t first, int64_t stride, int rows,
                       __nv_bfloat16 (&to)[kCount][kDim + 8]) const {
    const auto* from = static_cast<const __nv_bfloat16*>(t.data);
    for (int i = static_cast<int>(threadIdx.x); i < kCount * kDim / 8; i += kThreads) {
      const int r = i / (kDim / 8);
      const int d = i % (kDim / 8) * 8;
      const bool inside = r < rows && d < t.dim;
      CopyAsync16(SharedAddress(&to[r][d]), inside ? from + first + r * stride + d : from, inside ? 16 : 0);
    }
  }
  __device__ void LoadRows(const TensorView& t, typename Shared::Rows& to) const {
    Load(t, t.Offset(tile_.batch, tile_.q_begin + tile_.first_row, tile_.head),
         t.seq_stride * a_.sampling.row_every, tile_.rows, to);
  }
  __device__ void LoadKeys(const TensorView& t, int key, typename Shared::Keys& to) const {
    Load(t, t.Offset(tile_.batch, tile_.k_begin + key, own_.kv_head), t.seq_stride, tile_.k_len - key, to);
  }

  // Calls use(first key, buffer) for each tile of keys, with the next one on its way.
  template <bool kValues, typename F>
  __device__ void ForEachTile(F&& use) {
    const auto load = [&](int key, int buffer) {
      if (key < own_.all.last) {
        LoadKeys(a_.k, key, s_.k[buffer]);
        if (kValues) LoadKeys(p_.v, key, s_.v[buffer]);
      }
      CommitCopies();
    };
    load(own_.all.first, 0);
    int buffer = 0;
    for (int key = own_.all.first; key < own_.all.last; key += kKeys, buffer ^= 1) {
      load(key + kKeys, buffer ^ 1);
      WaitCopies<1>();
      __syncthreads();
      use(key, buffer);
      __syncthreads();
    }
    WaitCopies<0>();
    __syncthreads();  // where there are no keys, rows have only now arrived
  }

  // out = rows of the warp times keys.
  __device__ void Products(const typename Shared::Rows& rows, const typename Shared::Keys& keys,
                           Entries& out) const {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) out[b][0] = out[b][1] = out[b][2] = out[b][3] = 0;
    const uint32_t a_at = SharedAddress(&rows[16 * warp_ + lane_ % 16][lane_ / 16 * 8]);
    const uint32_t b_at = SharedAddress(&keys[lane_ % 8][lane_ / 8 * 8]);
#pragma unroll
    for (int d = 0; d < kDim; d += 32) {
      uint32_t a[2][4];
      LoadMatrix4(a[0], a_at + d * 2);
      LoadMatrix4(a[1], a_at + d * 2 + 32);
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        uint32_t b[4];
        LoadMatrix4(b, b_at + n * 8 * kPitch + d * 2);
        Mma(out[n], a[0], b[0], b[1], __nv_bfloat16{});
        Mma(out[n], a[1], b[2], b[3], __nv_bfloat16{});
      }
    }
  }

  // f(block, entry, row's r, key) for this thread's entries of a tile.
  template <typename F>
  __device__ void ForEachEntry(int first_key, F&& f) const {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (int e = 0; e < 4; ++e) f(b, e, e / 2, first_key + 8 * b + 2 * (lane_ % 4) + e % 2);
    }
  }

  // Scores, kMaskedBits where masked.
  __device__ void Scores(int first_key, int buffer, Entries& s) const {
    Products(s_.q, s_.k[buffer], s);
    ForEachEntry(first_key, [&](int b, int e, int r, int key) {
      const bool seen = key >= own_.keys[r].first && key < own_.keys[r].last;
      s[b][e] = seen ? a_.scale * s[b][e] : Float(kMaskedBits);
    });
  }

  // Each row's largest score, whether it ties, count of keys, and 1 / sum of e^(s - top), learned sinks
  // included.
  __device__ void FindSums() {
    RowScores mine[2];
    ForEachTile<false>([&](int key, int buffer) {
      Entries s;
      Scores(key, buffer, s);
      const float before[2] = {mine[0].largest, mine[1].largest};
      ForEachEntry(key, [&](int b, int e, int r, int) {
        if (Bits(s[b][e]) == kMaskedBits) return;
        strange_ |= !isfinite(s[b][e]);
        mine[r].See(s[b][e]);
      });
      float add[2] = {};
      ForEachEntry(key, [&](int b, int e, int r, int) {
        if (Bits(s[b][e]) != kMaskedBits) add[r] += expf(s[b][e] - mine[r].largest);
      });
#pragma unroll
      for (int r = 0; r < 2; ++r) mine[r].Add(before[r], add[r]);
    });
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      softmax_[r] = Combine<kLanes>(a_, tile_.head, mine[r]);
      strange_ |= softmax_[r].count > 0 && !isfinite(softmax_[r].inverse);
    }
  }

  // delta_ref = rowsum(dO O), O as forward stored it; the same in all threads of a row.
  __device__ void FindDeltas() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      double sum = 0;
      if (backward_ && RowOf(r) < tile_.rows) {
        const int64_t o = OutputRow(p_.o, r);
        for (int d = lane_ % 4; d < p_.v.dim; d += 4) {
          sum += Gradient(r, d) * Stored(p_.o, o, d);
        }
      }
      delta_[r] = RowSum<kLanes>(sum);
    }
  }
  __device__ int64_t OutputRow(const TensorView& t, int r) const {
    return t.Offset(tile_.batch, tile_.q_begin + own_.row[r], tile_.head);
  }
  __device__ double Gradient(int r, int d) const {
    return static_cast<double>(__bfloat162float(s_.d_o[RowOf(r)][d]));
  }

  // A second pass: o = P V; pk = P K and dq = W K. What is not asked for is not touched.
  template <bool kOutput, bool kDelta>
  __device__ void Accumulate(Outputs& o, Outputs& pk, Outputs& dq) {
    if (kOutput) Clear(o);
    if (kDelta) Clear(pk);
    if (kDelta) Clear(dq);
    ForEachTile<true>([&](int key, int buffer) {
      Entries p, weight;
      Weights<kDelta>(key, buffer, p, weight);
      if (kOutput) AddTile(p, s_.v[buffer], o);
      if (!kDelta) return;
      AddTile(p, s_.k[buffer], pk);
      AddTile(weight, s_.k[buffer], dq);
    });
    if (kOutput) Judge(o);
    if (kDelta) Judge(pk);
    if (kDelta) Judge(dq);
  }

  __device__ static void Clear(Outputs& x) {
#pragma unroll
    for (int b = 0; b < kDim / 8; ++b) x[b][0] = x[b][1] = x[b][2] = x[b][3] = 0;
  }
  // Not finite times 0 is NaN.
  __device__ void Judge(const Outputs& x) {
    float sum = 0;
#pragma unroll
    for (int b = 0; b < kDim / 8; ++b) sum += 0 * x[b][0] + 0 * x[b][1] + 0 * x[b][2] + 0 * x[b][3];
    strange_ |= !(sum == 0);
  }

  template <bool kDelta>
  __device__ void Weights(int key, int buffer, Entries& p, Entries& weight) const {
    Scores(key, buffer, p);
    if (kDelta) Products(s_.d_o, s_.v[buffer], weight);
    const SplitDelta delta[2] = {SplitDelta(delta_[0]), SplitDelta(delta_[1])};
    ForEachEntry(key, [&](int b, int e, int r, int) {
      const bool masked = Bits(p[b][e]) == kMaskedBits;
      p[b][e] = masked ? 0 : expf(p[b][e] - softmax_[r].top) * softmax_[r].inverse;
      if (kDelta) weight[b][e] = masked ? 0 : p[b][e] * delta[r].TakenFrom(weight[b][e]);
    });
  }

  // sums += weights x rows of V or K.
  __device__ void AddTile(const Entries& weights, const typename Shared::Keys& values, Outputs& sums) const {
    const uint32_t at = SharedAddress(&values[lane_ % 16][lane_ / 16 * 8]);
#pragma unroll
    for (int key = 0; key < kKeys; key += 16) {
      Split w;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float(&x)[4] = weights[key / 8 + half];
        SplitPair(x[0], x[1], &w.high[2 * half], &w.low[2 * half]);
        SplitPair(x[2], x[3], &w.high[2 * half + 1], &w.low[2 * half + 1]);
      }
#pragma unroll
      for (int b = 0; b < kDim / 8; b += 2) {
        uint32_t v[4];
        LoadTransposed4(v, at + key * kPitch + b * 16);
        float add[2][4] = {};
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          Mma(add[n], w.low, v[2 * n], v[2 * n + 1], __nv_bfloat16{});
          Mma(add[n], w.high, v[2 * n], v[2 * n + 1], __nv_bfloat16{});
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[b + n][e] += add[n][e];
        }
      }
    }
  }

  // This thread's elements of output row r: f(element, its sums' place).
  template <typename F>
  __device__ void ForEachElement(int64_t dim, F&& f) const {
#pragma unroll
    for (int b = 0; b < kDim / 8; ++b) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int d = 8 * b + 2 * (lane_ % 4) + n;
        if (d < dim) f(d, b, n);
      }
    }
  }

  __device__ void FinishOutput(const Outputs& o) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!Counts(r)) continue;
      const int64_t row = OutputRow(p_.o, r);
      ForEachElement(p_.v.dim, [&](int d, int b, int n) {
        AddOutputElement(Stored(p_.o, row, d), o[b][2 * r + n], backward_ ? Gradient(r, d) : 0, &found_[r]);
      });
    }
  }

  // Leaves (dQ - dQ_ref).(P K) in delta_error.
  __device__ void FinishDelta(const Outputs& pk, const Outputs& dq) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!Counts(r)) continue;
      const int64_t row = OutputRow(p_.dq, r);
      ForEachElement(a_.q.dim, [&](int d, int b, int n) {
        const double exact = static_cast<double>(a_.scale) * static_cast<double>(dq[b][2 * r + n]);
        const auto along = static_cast<double>(pk[b][2 * r + n]);
        found_[r].delta_error += (Stored(p_.dq, row, d) - exact) * along;
        norm2_[r] += along * along;
      });
    }
  }

  __device__ bool Counts(int r) const { return RowOf(r) < tile_.rows && softmax_[r].count >= 2; }

  // Adds up the quads' shares.
  __device__ void Write(RoundingRecord* records) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      RoundingRecord out = Finished<kLanes>(found_[r], norm2_[r], delta_[r], a_.scale);
      out.counts = Counts(r);
      out.tied = softmax_[r].tied;
      if (lane_ % 4 == 0) records[RowOf(r)] = out;
    }
  }

  const RoundingProblem& p_;
  const AttentionProblem& a_;
  const Tile& tile_;
  Shared& s_;
  const int lane_;
  const int warp_;
  const bool backward_;
  const OwnRows<2> own_;
  bool strange_ = false;  // a score or sum is not finite
  RowSoftmax softmax_[2];
  double delta_[2];
  RoundingRecord found_[2] = {};  // this thread's share
  double norm2_[2] = {};
};

// Blocks that a multiprocessor shall hold: 168 registers a thread, which wide heads' sums do not fit into.
template <int kDim>
constexpr int kResident = kDim <= 64 ? 6 : 1;

template <int kDim, bool kGradients>
__global__ void __launch_bounds__(kThreads, kResident<kDim>)
    RoundingMma(const __grid_constant__ RoundingProblem p, const __grid_constant__ TileList list,
                const uint32_t* enabled, RoundingRecord* records) {
  if (enabled != nullptr && *enabled == 0) return;
  extern __shared__ __align__(16) unsigned char raw[];
  auto& shared = *reinterpret_cast<MmaShared<kDim>*>(raw);
  const int64_t items = ItemCount(list);
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const Tile tile = ItemAt(p.attention, list, item);
    MmaTile<kDim, kGradients>(p, tile, shared)
        .Run(records + (tile.head * list.max_tiles + tile.partial) * kRows);
  }
}

bool Takes(const TensorView& t) { return t.dtype == kernels::DType::kBf16 && IsVectorized(t, 8); }

template <int kDim, bool kGradients>
int Launch(const RoundingProblem& p, const TileList& list, const uint32_t* enabled, RoundingRecord* records,
           cudaStream_t stream) {
  constexpr auto kernel = RoundingMma<kDim, kGradients>;
  const cudaError_t error = AllowShared<kernel>(sizeof(MmaShared<kDim>));
  if (error != cudaSuccess) return error;
  const int64_t most = int64_t{1} << 24;
  const auto blocks = static_cast<unsigned>(list.Items() < most ? list.Items() : most);
  kernel<<<blocks, kThreads, sizeof(MmaShared<kDim>), stream>>>(p, list, enabled, records);
  return cudaGetLastError();
}

}  // namespace

bool RoundingMmaTakes(const RoundingProblem& p) {
  const bool wide = p.attention.q.dim > 128 || p.v.dim > 128;
  return !wide && IsPlain(p.attention) && Takes(p.attention.q) && Takes(p.attention.k) && Takes(p.v) &&
         (p.d_o.data == nullptr || Takes(p.d_o));
}

int LaunchRoundingMma(const RoundingProblem& p, const TileList& list, const uint32_t* enabled,
                      RoundingRecord* records, cudaStream_t stream) {
  if (list.Items() == 0) return cudaSuccess;
  const bool gradients = p.d_o.data != nullptr && p.dq.data != nullptr;
  if (p.attention.q.dim <= 64 && p.v.dim <= 64) {
    return gradients ? Launch<64, true>(p, list, enabled, records, stream)
                     : Launch<64, false>(p, list, enabled, records, stream);
  }
  return gradients ? Launch<128, true>(p, list, enabled, records, stream)
                   : Launch<128, false>(p, list, enabled, records, stream);
}

}  // namespace foreshock::cuda
