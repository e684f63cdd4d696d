// A block stays on its multiprocessor and takes one tile of 192 sampled rows of a head after the other.
//
// Warpgroup 0 fetches: one thread has keys copied in bulk, 128 at a time, into a ring of shared-memory
// stages; three warps gather the next tile's query rows. Warpgroups 1 to 3 own 64 rows each: the tensor cores
// multiply them with the keys, then their threads run the statistics of attention_rows.cuh over the scores.
// The three take turns by themselves, so that while one waits for its products two others compute.
#include "attention_hopper.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "attention_partial.cuh"
#include "attention_scores.cuh"
#include "hopper_ptx.cuh"

namespace foreshock::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kKeys = 128;  // met at once

template <int kDim>
struct Shape {
  static constexpr int kStages = kDim == 64 ? 6 : 4;
  static constexpr int kKeyBytes = kKeys * kDim * 2;
  static constexpr int kQueryBytes = kHopperRows * kDim * 2;
};

// What the fetching warps tell the others of a tile.
struct Item {
  Tile tile;
  KeyBounds tiles;  // blocks of 128 keys
  bool valid;       // false: there is no more
};

template <int kDim>
struct Shared {
  unsigned char keys[Shape<kDim>::kStages][Shape<kDim>::kKeyBytes];
  unsigned char queries[2][Shape<kDim>::kQueryBytes];  // [warpgroup][block][64 rows][128 bytes]
  Item items[2];
  uint64_t keys_full[Shape<kDim>::kStages];
  uint64_t keys_free[Shape<kDim>::kStages];
  uint64_t queries_full[2];
  uint64_t queries_free[2];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kGroupRows = 64;
constexpr int kScores = kKeys / 4;  // of a row, a thread's
constexpr int kColumns = kScores / 2;
constexpr int kFetchRegisters = 32;
constexpr int kScoreRegisters = 160;
// Blocks of 128 bytes a row: what a swizzled copy can hold.
template <int kDim>
constexpr int kBlocks = kDim / 64;

// The tile's number that this block works on in a round: back and forth, so that long and short ones even
// out.
__device__ inline int64_t ItemOfRound(int64_t round) {
  const int64_t at = round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
  return round * gridDim.x + at;
}

// Blocks of 128 keys that some of the tile's rows may see; at least one, so that every tile passes the rings.
__device__ inline KeyBounds KeyTiles(const AttentionProblem& p, const Tile& t, int first, int count) {
  const KeyBounds keys = KeysOfRows(p, t, first, count);
  const int from = keys.first / kKeys;
  return {from, max(from + 1, (keys.last + kKeys - 1) / kKeys)};
}

template <int kDim>
__device__ void FetchKeys(const AttentionProblem& p, const TileList& list, const CUtensorMap* map,
                          Shared<kDim>& shared) {
  using S = Shape<kDim>;
  const int64_t items = ItemCount(list);
  const int group = static_cast<int>(p.q.heads / p.k.heads);
  unsigned at = 0;
  for (int64_t round = 0; round * gridDim.x < items; ++round) {
    const int64_t item = ItemOfRound(round);
    if (item >= items) continue;
    const Tile tile = ItemAt(p, list, item);
    const KeyBounds tiles = KeyTiles(p, tile, 0, tile.rows);
    for (int t = tiles.first; t < tiles.last; ++t, ++at) {
      const unsigned stage = at % S::kStages;
      hopper::Wait(&shared.keys_free[stage], (at / S::kStages & 1) ^ 1);
      hopper::ArriveExpecting(&shared.keys_full[stage], S::kKeyBytes);
      for (int b = 0; b < kBlocks<kDim>; ++b) {
        hopper::CopyBox(shared.keys[stage] + b * kKeys * 128, map, &shared.keys_full[stage], 64 * b,
                        static_cast<int>(tile.k_begin) + t * kKeys, tile.head / group, tile.batch);
      }
    }
  }
}

// Three warps gather sampled rows; the layout is the one that bulk copies would leave.
template <int kDim>
__device__ void FetchQueries(const AttentionProblem& p, const TileList& list, Shared<kDim>& shared) {
  const int64_t items = ItemCount(list);
  const int thread = static_cast<int>(threadIdx.x) - 32;
  const int bytes = static_cast<int>(p.q.dim) * 2;
  unsigned at = 0;
  for (int64_t round = 0; round * gridDim.x < items; ++round) {
    const int64_t item = ItemOfRound(round);
    if (item >= items) continue;
    const Tile tile = ItemAt(p, list, item);
    const unsigned slot = at % 2;
    hopper::Wait(&shared.queries_free[slot], (at / 2 & 1) ^ 1);
    if (thread == 0) shared.items[slot] = {tile, KeyTiles(p, tile, 0, tile.rows), true};
    const auto* base = static_cast<const unsigned char*>(p.q.data) +
                       2 * p.q.Offset(tile.batch, tile.q_begin + tile.first_row, tile.head);
    const int64_t stride = 2 * p.q.seq_stride * p.sampling.row_every;
    const uint32_t to = SharedAddress(shared.queries[slot]);
    constexpr int kChunks = kDim / 8;
    for (int i = thread; i < kHopperRows * kChunks; i += 96) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      const int valid = row < tile.rows ? max(0, min(16, bytes - 16 * chunk)) : 0;
      const int in_block = row % kGroupRows * 128 + ((chunk % 8) ^ (row % 8)) * 16;
      const int block = row / kGroupRows * kBlocks<kDim> + chunk / 8;
      CopyAsync16(to + block * kGroupRows * 128 + in_block,
                  valid > 0 ? base + row * stride + 16 * chunk : base, valid);
    }
    CommitCopies();
    WaitCopies<0>();
    hopper::FenceForAsync();
    hopper::Arrive(&shared.queries_full[slot]);
    ++at;
  }
  hopper::Wait(&shared.queries_free[at % 2], (at / 2 & 1) ^ 1);
  if (thread == 0) shared.items[at % 2].valid = false;
  hopper::Arrive(&shared.queries_full[at % 2]);
}

// Tells the compiler what we know: all lanes hold the same.
__device__ __forceinline__ int Uniform(int x) { return __shfl_sync(kWarp, x, 0); }

// sums = queries x keys: 64 x 128, both as the copies laid them out.
template <typename T, int kDim>
__device__ __forceinline__ void Multiply(const void* queries, const void* keys, float (&sums)[2 * kScores]) {
  const uint64_t q = hopper::Descriptor(SharedAddress(queries));
  const uint64_t k = hopper::Descriptor(SharedAddress(keys));
  hopper::Forget(sums);
  hopper::FenceProducts();
#pragma unroll
  for (int d = 0; d < kDim / 16; ++d) {
    // 16 elements on are 32 bytes on within a block; descriptors count in 16 bytes.
    const uint64_t a = q + d / 4 * (kGroupRows * 128 / 16) + d % 4 * 2;
    const uint64_t b = k + d / 4 * (kKeys * 128 / 16) + d % 4 * 2;
    hopper::Multiply64x128(sums, a, b, d > 0, T{});
  }
  hopper::CommitProducts();
  hopper::WaitProducts<0>();
  hopper::Pin(sums);
}

// One warp's part of a warpgroup that owns 64 rows of every tile.
template <typename T, int kDim>
__device__ __forceinline__ void Score(const AttentionProblem& p, const TileList& list, Shared<kDim>& shared,
                                      WarpPartial* partials) {
  using S = Shape<kDim>;
  const int group = Uniform(static_cast<int>(threadIdx.x / 128) - 1);
  const int first_row = group * kGroupRows + Uniform(static_cast<int>(threadIdx.x / 32) % 4) * 16;
  const bool leader = threadIdx.x % 32 == 0;
  const float to_log2 = p.scale * 1.44269504088896341f;
  unsigned stage = 0;
  unsigned stage_parity = 0;
  for (unsigned at = 0;; ++at) {
    const unsigned slot = at % 2;
    hopper::Wait(&shared.queries_full[slot], at / 2 & 1);
    if (Uniform(shared.items[slot].valid) == 0) return;
    const int first = Uniform(shared.items[slot].tiles.first);
    const int last = Uniform(shared.items[slot].tiles.last);
    int mine_first = 0;  // blocks of keys that this warpgroup's rows see
    int mine_last = 0;
    RowPair pair;
    {
      const Tile tile = shared.items[slot].tile;
      const int rows_here = min(kGroupRows, tile.rows - group * kGroupRows);
      const KeyBounds mine = rows_here > 0 ? KeyTiles(p, tile, group * kGroupRows, rows_here) : KeyBounds{};
      mine_first = Uniform(mine.first);
      mine_last = Uniform(mine.last);
      pair.Start(p, tile, first_row);
    }
    Row<kColumns> rows[2];
    rows[0].Start(pair.Has(0));
    rows[1].Start(pair.Has(1));
    bool settled = false;
    for (int t = first; t < last; ++t) {
      const bool needed = t >= mine_first && t < mine_last;
      float sums[2 * kScores];
      hopper::Wait(&shared.keys_full[stage], stage_parity);
      if (needed) {
        Multiply<T, kDim>(shared.queries[slot] + group * kBlocks<kDim> * kGroupRows * 128, shared.keys[stage],
                          sums);
      }
      if (leader) hopper::Arrive(&shared.keys_free[stage]);
      if (++stage == S::kStages) {
        stage = 0;
        stage_parity ^= 1;
      }
      if (needed) {
        AddPlain<kScores>(sums, to_log2, pair, t * kKeys, pair.SeeAll(t * kKeys, kKeys), rows, &settled);
      }
    }
    const int keys[2] = {pair.keys[0].last - pair.keys[0].first, pair.keys[1].last - pair.keys[1].first};
    const bool has_first_key[2] = {pair.keys[0].first == 0, pair.keys[1].first == 0};
    const Tile& tile = shared.items[slot].tile;
    const int head = tile.head;
    FinishWarp<Log2Units>(p, head, tile.rows, first_row, rows, keys, has_first_key,
                          partials + head * list.PartialsPerHead() + tile.partial + first_row / 16);
    __syncwarp();
    if (leader) hopper::Arrive(&shared.queries_free[slot]);
  }
}

#endif

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    HopperProbe(const __grid_constant__ AttentionProblem p, const __grid_constant__ TileList list,
                const __grid_constant__ CUtensorMap key_map, const uint32_t* enabled, WarpPartial* partials) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if (enabled != nullptr && *enabled == 0) return;
  extern __shared__ unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<kDim>*>((reinterpret_cast<uintptr_t>(raw) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape<kDim>::kStages; ++i) {
      hopper::InitBarrier(&shared.keys_full[i], 1);
      hopper::InitBarrier(&shared.keys_free[i], kHopperWarps);
    }
    for (int i = 0; i < 2; ++i) {
      hopper::InitBarrier(&shared.queries_full[i], 96);
      hopper::InitBarrier(&shared.queries_free[i], kHopperWarps);
    }
    hopper::FenceBarrierInit();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    hopper::GiveUpRegisters<kFetchRegisters>();
    if (threadIdx.x == 0) FetchKeys<kDim>(p, list, &key_map, shared);
    if (threadIdx.x >= 32) FetchQueries<kDim>(p, list, shared);
  } else {
    hopper::TakeRegisters<kScoreRegisters>();
    Score<T, kDim>(p, list, shared, partials);
  }
#endif
}

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's encoder, found without linking to the driver; null where there is none.
EncodeTiled Encoder() {
  static const EncodeTiled found = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result);
    if (error != cudaSuccess) (void)cudaGetLastError();
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess
               ? reinterpret_cast<EncodeTiled>(entry)
               : nullptr;
  }();
  return found;
}

// [batch, head, token, element] of the keys, in boxes of 128 tokens and 64 elements.
bool EncodeKeys(const kernels::TensorView& k, CUtensorMap* map) {
  const auto size = [](int64_t n) { return static_cast<cuuint64_t>(std::max<int64_t>(n, 1)); };
  // The stride of an axis of one is never used, but must look like one.
  const auto bytes = [](int64_t n, int64_t stride) {
    return static_cast<cuuint64_t>(n > 1 ? 2 * stride : 16);
  };
  const cuuint64_t sizes[4] = {size(k.dim), size(k.seq), size(k.heads), size(k.batch)};
  const cuuint64_t strides[3] = {bytes(k.seq, k.seq_stride), bytes(k.heads, k.head_stride),
                                 bytes(k.batch, k.batch_stride)};
  const cuuint32_t box[4] = {64, kKeys, 1, 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const auto type =
      k.dtype == kernels::DType::kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  return Encoder()(map, type, 4, const_cast<void*>(k.data), sizes, strides, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// Rows that 16-byte and bulk copies can read.
bool IsBulk(const kernels::TensorView& t) {
  for (int64_t stride : {t.seq_stride, t.head_stride, t.batch_stride}) {
    if (stride < 0 || stride % 8 != 0 || stride >= (int64_t{1} << 38)) return false;
  }
  return t.dim_stride == 1 && reinterpret_cast<uintptr_t>(t.data) % 16 == 0;
}

// A device of the kernels' own architecture, whose machine code is there: PTX for others has an empty kernel.
bool HasHopperCode() {
  int device = 0;
  int major = 0;
  cudaFuncAttributes code{};
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      major != 9 || cudaFuncGetAttributes(&code, HopperProbe<__nv_bfloat16, 64>) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return code.binaryVersion == 90 && code.ptxVersion == 90;
}

template <typename T, int kDim>
int Launch(const AttentionProblem& p, const TileList& list, const uint32_t* enabled, WarpPartial* partials,
           cudaStream_t stream) {
  CUtensorMap map;
  if (!EncodeKeys(p.k, &map)) return cudaErrorInvalidValue;
  const auto kernel = HopperProbe<T, kDim>;
  constexpr int kShared = sizeof(Shared<kDim>) + 1024;
  int device = 0;
  int multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  }
  if (error != cudaSuccess) return error;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(list.Items(), multiprocessors));
  // The keys of the pairs worked on together should stay in the L2.
  constexpr int64_t kTogether = int64_t{16} << 20;
  const int64_t group = p.q.heads / p.k.heads;
  TileList ordered = list;
  ordered.pairs_at_once = static_cast<int>(
      std::max<int64_t>(1, std::min<int64_t>(kTogether / std::max<int64_t>(1, p.k.seq * p.k.dim * 2), 4096)) *
      group);
  kernel<<<blocks, kThreads, kShared, stream>>>(p, ordered, map, enabled, partials);
  return cudaGetLastError();
}

template <typename T>
int Launch(const AttentionProblem& p, const TileList& list, const uint32_t* enabled, WarpPartial* partials,
           cudaStream_t stream) {
  return p.q.dim <= 64 ? Launch<T, 64>(p, list, enabled, partials, stream)
                       : Launch<T, 128>(p, list, enabled, partials, stream);
}

}  // namespace

bool HopperTakes(const AttentionProblem& p) {
  const bool plain = p.softcap == 0 && p.keep_mask.data == nullptr && p.additive_mask.data == nullptr &&
                     p.bias.data == nullptr && p.alibi_slopes == nullptr;
  const bool half =
      p.q.dtype == p.k.dtype && (p.q.dtype == kernels::DType::kBf16 || p.q.dtype == kernels::DType::kFp16);
  return plain && half && p.q.dim <= 128 && p.k.batch > 0 && p.k.seq > 0 && IsBulk(p.q) && IsBulk(p.k) &&
         HasHopperCode() && Encoder() != nullptr;
}

int LaunchHopper(const AttentionProblem& p, const TileList& list, const uint32_t* enabled,
                 WarpPartial* partials, cudaStream_t stream) {
  if (list.Items() == 0) return cudaSuccess;
  return p.q.dtype == kernels::DType::kBf16 ? Launch<__nv_bfloat16>(p, list, enabled, partials, stream)
                                            : Launch<__half>(p, list, enabled, partials, stream);
}

}  // namespace foreshock::cuda
