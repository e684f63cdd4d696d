// One block takes a tile of 64 sampled rows of one head and meets its keys 64 at a time: products on tensor
// cores (16-bit inputs of one dtype, head size up to 256) or in fp32 multiply-adds (everything else), then
// the running statistics of attention_rows.cuh. Nothing but registers holds scores.
#include "attention_portable.h"

#include <algorithm>

#include "attention_partial.cuh"
#include "attention_scores.cuh"
#include "kernel_launch.cuh"
#include "mma_sync.cuh"

namespace foreshock::cuda {
namespace {

constexpr int kThreads = 32 * kPortableWarps;
constexpr int kKeys = 64;           // met at once
constexpr int kScores = kKeys / 4;  // of a row, a thread's
constexpr int kColumns = kScores / 2;

// Products by mma.sync. Rows lie in shared memory, the head size (rounded up to 16) and 8 of padding apart,
// so that the 8 rows an ldmatrix reads fall into different banks.
template <typename T>
class TensorCoreProducts {
 public:
  __host__ __device__ static int Padded(const AttentionProblem& p) {
    return (static_cast<int>(p.q.dim) + 15) / 16 * 16;
  }
  static size_t SharedBytes(const AttentionProblem& p) {
    return 3 * size_t{64} * static_cast<size_t>(Padded(p) + 8) * sizeof(T);
  }

  __device__ TensorCoreProducts(const AttentionProblem& p, const Tile& tile, void* shared)
      : p_(p),
        tile_(tile),
        dim_(Padded(p)),
        pitch_(dim_ + 8),
        q_(static_cast<T*>(shared)),
        k_(q_ + 64 * pitch_) {
    fast_q_ = IsVector(p.q);
    fast_k_ = IsVector(p.k);
  }

  // Starts loading the queries and the keys from first_key on.
  __device__ void Start(int first_key) {
    const T* base = static_cast<const T*>(p_.q.data) +
                    p_.q.Offset(tile_.batch, tile_.q_begin + tile_.first_row, tile_.head);
    Load(q_, base, p_.q.seq_stride * p_.sampling.row_every, p_.q.dim_stride, tile_.rows, fast_q_);
    LoadKeys(first_key, 0);
    CommitCopies();
  }

  // The products of this warp's 16 rows with keys [key, key + 64); starts loading the next 64.
  __device__ void Multiply(int key, int last_key, float (&y)[2 * kScores]) {
    WaitCopies<0>();
    __syncthreads();
    if (key + kKeys < last_key) LoadKeys(key + kKeys, 1 - stage_);
    CommitCopies();
    const T* k = k_ + stage_ * 64 * pitch_;
    stage_ = 1 - stage_;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    const uint32_t a_row = SharedAddress(q_ + (16 * warp + lane % 16) * pitch_ + lane / 16 * 8);
    const uint32_t b_row = SharedAddress(k + (lane / 16 * 8 + lane % 8) * pitch_ + lane / 8 % 2 * 8);
#pragma unroll
    for (int i = 0; i < 2 * kScores; ++i) y[i] = 0;
#pragma unroll 1
    for (int d = 0; d < dim_; d += 16) {
      uint32_t a[4];
      LoadMatrix4(a, a_row + d * sizeof(T));
#pragma unroll
      for (int n = 0; n < kKeys; n += 16) {
        uint32_t b[4];
        LoadMatrix4(b, b_row + (n * pitch_ + d) * sizeof(T));
        Mma(y + n / 8 * 4, a, b[0], b[1], T{});
        Mma(y + n / 8 * 4 + 4, a, b[2], b[3], T{});
      }
    }
  }

 private:
  // 16-byte copies need dense rows at multiples of 16 bytes.
  __device__ static bool IsVector(const kernels::TensorView& t) {
    return t.dim_stride == 1 && reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.seq_stride % 8 == 0 &&
           t.head_stride % 8 == 0 && t.batch_stride % 8 == 0;
  }

  __device__ void LoadKeys(int first, int stage) {
    const int kv_head = tile_.head / static_cast<int>(p_.q.heads / p_.k.heads);
    const T* base =
        static_cast<const T*>(p_.k.data) + p_.k.Offset(tile_.batch, tile_.k_begin + first, kv_head);
    Load(k_ + stage * 64 * pitch_, base, p_.k.seq_stride, p_.k.dim_stride, tile_.k_len - first, fast_k_);
  }

  // 64 rows; those from `rows` on, and elements past the head size, are zero.
  __device__ void Load(T* to, const T* base, int64_t stride, int64_t dim_stride, int rows, bool fast) const {
    const int dim = static_cast<int>(p_.q.dim);
    const int chunks = dim_ / 8;
    for (int i = static_cast<int>(threadIdx.x); i < 64 * chunks; i += kThreads) {
      const int row = i / chunks;
      const int d = i % chunks * 8;
      const int valid = row < rows ? max(0, min(8, dim - d)) : 0;
      T* at = to + row * pitch_ + d;
      if (fast) {
        const T* from = valid > 0 ? base + row * stride + d : base;
        CopyAsync16(SharedAddress(at), from, valid * static_cast<int>(sizeof(T)));
        continue;
      }
      for (int e = 0; e < 8; ++e) at[e] = e < valid ? base[row * stride + (d + e) * dim_stride] : T(0.0f);
    }
  }

  const AttentionProblem& p_;
  const Tile& tile_;
  int dim_;
  int pitch_;
  T* q_;
  T* k_;
  int stage_ = 0;
  bool fast_q_;
  bool fast_k_;
};

// Products in fp32, 32 elements of the head at a time, whatever the dtype and head size.
class MultiplyAddProducts {
 public:
  static constexpr int kDims = 32;
  static constexpr int kPitch = kDims + 4;  // 16-byte reads of 8 rows fall into different banks
  static size_t SharedBytes(const AttentionProblem&) { return 2 * size_t{64} * kPitch * sizeof(float); }

  __device__ MultiplyAddProducts(const AttentionProblem& p, const Tile& tile, void* shared)
      : p_(p), tile_(tile), q_(static_cast<float*>(shared)), k_(q_ + 64 * kPitch) {}

  __device__ void Start(int) {}

  __device__ void Multiply(int key, int, float (&y)[2 * kScores]) {
    const int kv_head = tile_.head / static_cast<int>(p_.q.heads / p_.k.heads);
    const int64_t q = p_.q.Offset(tile_.batch, tile_.q_begin + tile_.first_row, tile_.head);
    const int64_t k = p_.k.Offset(tile_.batch, tile_.k_begin + key, kv_head);
#pragma unroll
    for (int i = 0; i < 2 * kScores; ++i) y[i] = 0;
    for (int d = 0; d < p_.q.dim; d += kDims) {
      __syncthreads();
      Load(q_, p_.q, q, p_.q.seq_stride * p_.sampling.row_every, d, tile_.rows);
      Load(k_, p_.k, k, p_.k.seq_stride, d, tile_.k_len - key);
      __syncthreads();
      AddProducts(y);
    }
  }

 private:
  __device__ void Load(float* to, const kernels::TensorView& t, int64_t first, int64_t stride, int d,
                       int rows) const {
    const int dims = static_cast<int>(min(int64_t{kDims}, t.dim - d));
    for (int i = static_cast<int>(threadIdx.x); i < 64 * kDims; i += kThreads) {
      const int row = i / kDims;
      const int e = i % kDims;
      const bool valid = row < rows && e < dims;
      to[row * kPitch + e] =
          valid ? LoadAny(t.data, t.dtype, first + row * stride + (d + e) * t.dim_stride) : 0;
    }
  }

  __device__ void AddProducts(float (&y)[2 * kScores]) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warp = static_cast<int>(threadIdx.x / 32);
    const float* q = q_ + (16 * warp + lane / 4) * kPitch;
    const float* k = k_ + 2 * (lane % 4) * kPitch;
    for (int d = 0; d < kDims; d += 4) {
      const float4 a = *reinterpret_cast<const float4*>(q + d);
      const float4 b = *reinterpret_cast<const float4*>(q + 8 * kPitch + d);
#pragma unroll
      for (int e = 0; e < kScores; ++e) {
        const float4 c = *reinterpret_cast<const float4*>(k + ColumnOf(e) * kPitch + d);
        Add(a, c, &y[At(0, e)]);
        Add(b, c, &y[At(1, e)]);
      }
    }
  }
  __device__ static void Add(const float4& a, const float4& b, float* sum) {
    *sum = fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, *sum))));
  }

  const AttentionProblem& p_;
  const Tile& tile_;
  float* q_;
  float* k_;
};

// kFeatured: something else than causality and window touches the scores.
template <typename Products, bool kFeatured>
__global__ void __launch_bounds__(kThreads)
    PortableProbe(const __grid_constant__ AttentionProblem p, const __grid_constant__ TileList list,
                  const uint32_t* enabled, WarpPartial* partials) {
  if (enabled != nullptr && *enabled == 0) return;
  extern __shared__ __align__(16) unsigned char shared[];
  const int64_t items = ItemCount(list);
  const int warp = static_cast<int>(threadIdx.x / 32);
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const Tile tile = ItemAt(p, list, item);
    RowPair pair;
    pair.Start(p, tile, 16 * warp);
    Row<kColumns> rows[2];
    rows[0].Start(pair.Has(0));
    rows[1].Start(pair.Has(1));
    bool settled = false;
    bool has_first_key[2] = {false, false};
    const KeyBounds keys = KeysOf(p, tile).OfRows(0, tile.rows);
    const int start = keys.first / kKeys * kKeys;
    Products products(p, tile, shared);
    __syncthreads();  // the last tile's products are done with shared memory
    if (start < keys.last) products.Start(start);
    for (int key = start; key < keys.last; key += kKeys) {
      float y[2 * kScores];
      products.Multiply(key, keys.last, y);
      if constexpr (kFeatured) {
        AddFeatured<kScores>(y, p, tile, pair, key, rows, has_first_key, &settled);
      } else {
        AddPlain<kScores>(y, p.scale * 1.44269504088896341f, pair, key, pair.SeeAll(key, kKeys), rows,
                          &settled);
      }
    }
    int counts[2];
    for (int r = 0; r < 2; ++r) {
      if constexpr (kFeatured) {
        counts[r] = rows[r].count;
        counts[r] += __shfl_xor_sync(kWarp, counts[r], 1);
        counts[r] += __shfl_xor_sync(kWarp, counts[r], 2);
        has_first_key[r] = __shfl_sync(kWarp, has_first_key[r], threadIdx.x % 32 / 4 * 4);
      } else {
        counts[r] = pair.keys[r].last - pair.keys[r].first;
        has_first_key[r] = pair.keys[r].first == 0;
      }
    }
    using Units = std::conditional_t<kFeatured, NatUnits, Log2Units>;
    FinishWarp<Units>(p, tile.head, tile.rows, 16 * warp, SummaryOfLane(rows), counts, has_first_key,
                      partials + tile.head * list.PartialsPerHead() + tile.partial + warp);
  }
}

template <typename Products, bool kFeatured>
int Launch(const AttentionProblem& p, const TileList& list, const uint32_t* enabled, WarpPartial* partials,
           cudaStream_t stream) {
  constexpr auto kernel = PortableProbe<Products, kFeatured>;
  const size_t shared = Products::SharedBytes(p);
  const cudaError_t error = AllowShared<kernel>(shared);
  if (error != cudaSuccess) return error;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(list.Items(), 1 << 24));
  kernel<<<blocks, kThreads, shared, stream>>>(p, list, enabled, partials);
  return cudaGetLastError();
}

template <typename Products>
int Launch(const AttentionProblem& p, const TileList& list, const uint32_t* enabled, WarpPartial* partials,
           cudaStream_t stream) {
  const bool featured = p.softcap > 0 || p.keep_mask.data != nullptr || p.additive_mask.data != nullptr ||
                        p.bias.data != nullptr || p.alibi_slopes != nullptr;
  return featured ? Launch<Products, true>(p, list, enabled, partials, stream)
                  : Launch<Products, false>(p, list, enabled, partials, stream);
}

}  // namespace

int LaunchPortable(const AttentionProblem& p, const TileList& list, const uint32_t* enabled,
                   WarpPartial* partials, cudaStream_t stream) {
  if (list.Items() == 0) return cudaSuccess;
  if (p.q.dtype == p.k.dtype && p.q.dim <= 256) {
    if (p.q.dtype == kernels::DType::kBf16) {
      return Launch<TensorCoreProducts<__nv_bfloat16>>(p, list, enabled, partials, stream);
    }
    if (p.q.dtype == kernels::DType::kFp16) {
      return Launch<TensorCoreProducts<__half>>(p, list, enabled, partials, stream);
    }
  }
  return Launch<MultiplyAddProducts>(p, list, enabled, partials, stream);
}

}  // namespace foreshock::cuda
