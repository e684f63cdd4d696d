// A block stays on its multiprocessor and takes one tile of sampled rows of a head after the other.
//
// Warpgroup 0 fetches: one thread has keys copied in bulk, 128 at a time, into a ring of shared-memory
// stages; three warps gather the next tile's query rows. Warpgroups 1 to 3 score: the tensor cores multiply
// 64 rows with a block of keys, then the warps' threads run the statistics of attention_rows.cuh over the
// scores. They take turns by themselves: while one waits for its products two others compute.
//
// Tiles have 192 rows, 64 for each warpgroup. Where a sequence has few sampled rows they have 64, and the
// warpgroups share the blocks of keys instead (kShareKeys).
#include "attention_hopper.h"

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <mutex>

#include "attention_partial.cuh"
#include "attention_scores.cuh"
#include "hopper_ptx.cuh"

namespace foreshock::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kKeys = 128;  // met at once

constexpr int kGroups = 3;  // warpgroups that score

template <int kDim>
struct Shape {
  static constexpr int kStages = kDim == 64 ? 6 : 4;
  static constexpr int kKeyBytes = kKeys * kDim * 2;
  static constexpr int kQueryBytes = kHopperRows * kDim * 2;
};

// What the fetching warps tell the others of a tile.
struct Item {
  bool valid;  // false: there is no more
  int head;
  int rows;
  int64_t partial;  // where the head's partials of this tile begin
  int spare;        // neutral partials to write behind them
  RowKeys keys;
  KeyBounds blocks;             // of 128 keys
  KeyBounds of_group[kGroups];  // those that each warpgroup needs; not of shared keys
};

// What SmallTileAt divides by.
struct SmallDivisors {
  Divisor group, together, rest, heads, rows;
  uint32_t whole_groups = 0;
  int first_sequence = 0;
  uint32_t first_row = 0;
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

constexpr int kGroupBytes = kRowGroup * 128;  // of one block of 64 elements of a warpgroup's rows
constexpr int kScores = kKeys / 4;            // of a row, a thread's
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

// Blocks of 128 keys that some of `count` rows from `first` on may see.
__device__ inline KeyBounds BlocksOf(const RowKeys& keys, int first, int count) {
  const KeyBounds of_rows = keys.OfRows(first, count);
  if (of_rows.last <= of_rows.first) return {};
  return {of_rows.first / kKeys, (of_rows.last + kKeys - 1) / kKeys};
}

// ItemAt of small tiles (SmallTiles), by products instead of divisions.
__device__ inline Tile SmallTileAt(const AttentionProblem& p, const TileList& list, const SmallDivisors& by,
                                   uint32_t at) {
  Tile t;
  const uint32_t group = by.group.Of(at);
  const uint32_t first_pair = group * by.together.by;
  const uint32_t within = at - group * by.group.by;
  const bool rest = group == by.whole_groups;
  const uint32_t lap = rest ? by.rest.Of(within) : by.together.Of(within);
  const uint32_t pair = first_pair + within - lap * (rest ? by.rest.by : by.together.by);
  const int tile = list.tiles_per_sequence - 1 - static_cast<int>(lap);
  const uint32_t ordinal = by.heads.Of(pair);
  t.head = static_cast<int>(pair - ordinal * by.heads.by);
  t.last_of_sequence = lap == 0;
  t.partial = ordinal * list.PartialsPerSequence() + int64_t{tile} * list.warps_per_tile;
  t.sequence = t.batch = by.first_sequence + static_cast<int>(ordinal) * p.sampling.sequence_every;
  t.q_len = static_cast<int>(p.q.seq);
  t.k_len = static_cast<int>(p.k.seq);
  const uint32_t shift = by.first_row + ordinal;
  const int first = static_cast<int>(shift - by.rows.Of(shift) * by.rows.by);
  const int rows =
      first < t.q_len ? static_cast<int>(by.rows.Of(static_cast<uint32_t>(t.q_len - 1 - first))) + 1 : 0;
  const int begin = tile * kRowGroup;
  t.first_row = first + begin * p.sampling.row_every;
  t.rows = max(0, min(begin + kRowGroup, rows) - begin);
  return t;
}

template <bool kShareKeys>
__device__ inline Item Describe(const AttentionProblem& p, const TileList& list, const Tile& tile,
                                const RowKeys& keys) {
  Item item;
  item.valid = true;
  item.head = tile.head;
  item.rows = tile.rows;
  item.partial = tile.head * list.PartialsPerHead() + tile.partial;
  item.spare = tile.last_of_sequence ? list.spare_partials : 0;
  item.keys = keys;
  item.blocks = BlocksOf(keys, 0, tile.rows);
  for (int g = 0; !kShareKeys && g < kGroups; ++g) {
    item.of_group[g] = BlocksOf(keys, g * kRowGroup, min(kRowGroup, tile.rows - g * kRowGroup));
  }
  return item;
}

// One warp's part of the fetching warpgroup: keys are copied by the first one's first thread, queries by the
// other three.
template <int kDim, bool kShareKeys>
__device__ void Fetch(const AttentionProblem& p, const TileList& list, const SmallDivisors& by,
                      const CUtensorMap* map, Shared<kDim>& shared) {
  using S = Shape<kDim>;
  const int64_t items = kShareKeys ? list.Items() : ItemCount(list);
  const int group = static_cast<int>(p.q.heads / p.k.heads);
  const int bytes = static_cast<int>(p.q.dim) * 2;
  const int thread = static_cast<int>(threadIdx.x) - 32;
  unsigned key_block = 0;
  unsigned at = 0;
  for (int64_t round = 0; round * gridDim.x < items; ++round) {
    const int64_t item = ItemOfRound(round);
    if (item >= items) continue;
    Tile tile;
    if constexpr (kShareKeys) {
      tile = SmallTileAt(p, list, by, static_cast<uint32_t>(item));
    } else {
      tile = ItemAt(p, list, item);
    }
    const RowKeys keys = KeysOf(p, tile);
    if (thread < 0) {
      if (threadIdx.x > 0) continue;
      const KeyBounds blocks = BlocksOf(keys, 0, tile.rows);
#pragma unroll 1
      for (int t = blocks.first; t < blocks.last; ++t, ++key_block) {
        const unsigned stage = key_block % S::kStages;
        hopper::Wait(&shared.keys_free[stage], (key_block / S::kStages & 1) ^ 1);
        hopper::ArriveExpecting(&shared.keys_full[stage], S::kKeyBytes);
        for (int b = 0; b < kBlocks<kDim>; ++b) {
          hopper::CopyBox(shared.keys[stage] + b * kKeys * 128, map, &shared.keys_full[stage], 64 * b,
                          static_cast<int>(tile.k_begin) + t * kKeys, tile.head / group, tile.batch);
        }
      }
      continue;
    }
    const unsigned slot = at % 2;
    hopper::Wait(&shared.queries_free[slot], (at / 2 & 1) ^ 1);
    // The layout is the one that bulk copies would leave.
    const auto* base = static_cast<const unsigned char*>(p.q.data) +
                       2 * p.q.Offset(tile.batch, tile.q_begin + tile.first_row, tile.head);
    const int64_t stride = 2 * p.q.seq_stride * p.sampling.row_every;
    const uint32_t to = SharedAddress(shared.queries[slot]);
    constexpr int kChunks = kDim / 8;
#pragma unroll 1  // code that runs once costs more to fetch than to run
    for (int i = thread; i < list.rows_per_tile * kChunks; i += 96) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      const int valid = row < tile.rows ? max(0, min(16, bytes - 16 * chunk)) : 0;
      const int in_block = row % kRowGroup * 128 + ((chunk % 8) ^ (row % 8)) * 16;
      const int block = row / kRowGroup * kBlocks<kDim> + chunk / 8;
      CopyAsync16(to + block * kGroupBytes + in_block, valid > 0 ? base + row * stride + 16 * chunk : base,
                  valid);
    }
    CommitCopies();
    if (thread == 0) shared.items[slot] = Describe<kShareKeys>(p, list, tile, keys);
    WaitCopies<0>();
    hopper::FenceForAsync();
    hopper::Arrive(&shared.queries_full[slot]);
    ++at;
  }
  if (thread < 0) return;
  hopper::Wait(&shared.queries_free[at % 2], (at / 2 & 1) ^ 1);
  if (thread == 0) shared.items[at % 2].valid = false;
  hopper::Arrive(&shared.queries_full[at % 2]);
}

// Tells the compiler what we know: all lanes hold the same.
template <typename T>
__device__ __forceinline__ T Uniform(T x) {
  return __shfl_sync(kWarp, x, 0);
}

// The named barrier of a tile whose keys were shared.
__device__ __forceinline__ int MergeOf(unsigned slot) { return 1 + static_cast<int>(slot); }

// sums = queries x keys: 64 x 128, both at addresses in shared memory, as the copies laid them out.
template <typename T, int kDim>
__device__ __forceinline__ void Multiply(uint32_t queries, uint32_t keys, float (&sums)[2 * kScores]) {
  const uint64_t q = hopper::Descriptor(queries);
  const uint64_t k = hopper::Descriptor(keys);
  hopper::Forget(sums);
  hopper::FenceProducts();
#pragma unroll
  for (int d = 0; d < kDim / 16; ++d) {
    // 16 elements on are 32 bytes on within a block; descriptors count in 16 bytes.
    const uint64_t a = q + d / 4 * (kGroupBytes / 16) + d % 4 * 2;
    const uint64_t b = k + d / 4 * (kKeys * 128 / 16) + d % 4 * 2;
    hopper::Multiply64(sums, a, b, d > 0, T{});
  }
  hopper::CommitProducts();
  hopper::WaitProducts<0>();
  hopper::Pin(sums);
}

// Rows whose keys were shared: warpgroups 1 and 2 leave their part behind the tile's queries, warpgroup 0
// adds them to its own, in a fixed order.
__device__ __forceinline__ void MergeGroups(unsigned char* queries, unsigned slot, int group, int in_tile,
                                            RowSummary* mine) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  auto* others = reinterpret_cast<RowSummary*>(queries + 2 * kGroupBytes);
  const int row = in_tile + lane / 4 + lane % 4 * 8;
  if (group > 0) {
    if (lane % 4 < 2) others[(group - 1) * kRowGroup + row] = *mine;
    hopper::ArriveNamed(MergeOf(slot), 128 * kGroups);
    return;
  }
  hopper::SyncNamed(MergeOf(slot), 128 * kGroups);
  if (lane % 4 >= 2) return;
  for (int g = 0; g < kGroups - 1; ++g) *mine = Merge<Log2Units>(*mine, others[g * kRowGroup + row]);
}

// One warp's part of a scoring warpgroup.
template <typename T, int kDim, bool kShareKeys>
__device__ __forceinline__ void Score(const AttentionProblem& p, Shared<kDim>& shared,
                                      WarpPartial* partials) {
  using S = Shape<kDim>;
  const int group = Uniform(static_cast<int>(threadIdx.x / 128) - 1);
  const int rows_of = kShareKeys ? 0 : group;  // whose rows
  const int first_row = rows_of * kRowGroup + Uniform(static_cast<int>(threadIdx.x / 32) % 4) * 16;
  const bool leader = threadIdx.x % 32 == 0;
  const float to_log2 = p.scale * 1.44269504088896341f;
  unsigned stage = 0;
  unsigned stage_parity = 0;
  const uint32_t keys_at = Uniform(SharedAddress(shared.keys));
  const uint32_t queries_at = Uniform(SharedAddress(shared.queries));
  int turn = 0;  // whose the next block is, where keys are shared
  for (unsigned at = 0;; ++at) {
    const unsigned slot = at % 2;
    hopper::Wait(&shared.queries_full[slot], at / 2 & 1);
    const Item& item = shared.items[slot];
    if (!Uniform(static_cast<int>(item.valid))) break;
    const int first = Uniform(item.blocks.first);
    const int last = Uniform(item.blocks.last);
    const KeyBounds& of_mine = kShareKeys ? item.blocks : item.of_group[group];
    const int mine_first = Uniform(of_mine.first);
    const int mine_last = Uniform(of_mine.last);
    RowPair pair;
    pair.Start(item.keys, item.rows, first_row);
    Row<kColumns> rows[2];
    rows[0].Start(pair.Has(0));
    rows[1].Start(pair.Has(1));
    bool settled = false;
    for (int t = first; t < last; ++t) {
      const unsigned here = stage;
      const unsigned parity = stage_parity;
      if (++stage == S::kStages) {
        stage = 0;
        stage_parity ^= 1;
      }
      bool needed = t >= mine_first && t < mine_last;
      if constexpr (kShareKeys) {
        needed = turn == group;
        turn = turn == kGroups - 1 ? 0 : turn + 1;
        if (!needed) continue;
      }
      hopper::Wait(&shared.keys_full[here], parity);
      if (!needed) {
        if (leader) hopper::Arrive(&shared.keys_free[here]);
        continue;
      }
      float sums[2 * kScores];
      Multiply<T, kDim>(queries_at + slot * S::kQueryBytes + rows_of * kBlocks<kDim> * kGroupBytes,
                        keys_at + here * S::kKeyBytes, sums);
      if (leader) hopper::Arrive(&shared.keys_free[here]);
      AddPlain<kScores>(sums, to_log2, pair, t * kKeys, pair.SeeAll(t * kKeys, kKeys), rows, &settled);
    }
    RowSummary mine = SummaryOfLane(rows);
    if constexpr (kShareKeys) MergeGroups(shared.queries[slot], slot, group, first_row, &mine);
    if (!kShareKeys || group == 0) {
      const int keys[2] = {pair.keys[0].last - pair.keys[0].first, pair.keys[1].last - pair.keys[1].first};
      const bool has_first_key[2] = {pair.keys[0].first == 0, pair.keys[1].first == 0};
      WarpPartial* out = partials + item.partial;
      FinishWarp<Log2Units>(p, item.head, item.rows, first_row, mine, keys, has_first_key,
                            out + first_row / 16);
      if constexpr (kShareKeys) {
        for (int i = first_row / 16; leader && i < item.spare; i += 4) out[4 + i] = NoRows();
      }
    }
    hopper::Arrive(&shared.queries_free[slot]);
  }
}

#endif

template <typename T, int kDim, bool kShareKeys>
__global__ void __launch_bounds__(kThreads, 1)
    HopperProbe(const __grid_constant__ AttentionProblem p, const __grid_constant__ TileList list,
                const __grid_constant__ SmallDivisors by, const __grid_constant__ CUtensorMap key_map,
                const uint32_t* enabled, WarpPartial* partials) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  cudaTriggerProgrammaticLaunchCompletion();  // the finishing kernel may get ready
  if (enabled != nullptr && *enabled == 0) return;
  extern __shared__ unsigned char raw[];
  auto& shared = *reinterpret_cast<Shared<kDim>*>((reinterpret_cast<uintptr_t>(raw) + 1023) / 1024 * 1024);
  if (threadIdx.x == 0) {
    hopper::PrefetchMap(&key_map);
    for (int i = 0; i < Shape<kDim>::kStages; ++i) {
      hopper::InitBarrier(&shared.keys_full[i], 1);
      hopper::InitBarrier(&shared.keys_free[i], kShareKeys ? kHopperWarps / kGroups : kHopperWarps);
    }
    for (int i = 0; i < 2; ++i) {
      hopper::InitBarrier(&shared.queries_full[i], 96);
      hopper::InitBarrier(&shared.queries_free[i], 32 * kHopperWarps);
    }
    hopper::FenceBarrierInit();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    hopper::GiveUpRegisters<kFetchRegisters>();
    Fetch<kDim, kShareKeys>(p, list, by, &key_map, shared);
  } else {
    hopper::TakeRegisters<kScoreRegisters>();
    Score<T, kDim, kShareKeys>(p, shared, partials);
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

struct HopperDevice {
  bool has_code = false;
  int multiprocessors = 0;
};

// Lets the kernel use its shared memory on the current device.
template <typename T, int kDim>
cudaError_t Allow() {
  constexpr int kShared = sizeof(Shared<kDim>) + 1024;
  constexpr auto kLimit = cudaFuncAttributeMaxDynamicSharedMemorySize;
  const cudaError_t error = cudaFuncSetAttribute(HopperProbe<T, kDim, false>, kLimit, kShared);
  return error != cudaSuccess ? error : cudaFuncSetAttribute(HopperProbe<T, kDim, true>, kLimit, kShared);
}

HopperDevice Look(int device) {
  HopperDevice found;
  int major = 0;
  cudaFuncAttributes code{};
  cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess && major == 9) {
    error = cudaFuncGetAttributes(&code, HopperProbe<__nv_bfloat16, 64, false>);
  }
  // PTX for other architectures has an empty kernel.
  if (error == cudaSuccess && code.binaryVersion == 90 && code.ptxVersion == 90) {
    error = cudaDeviceGetAttribute(&found.multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (error == cudaSuccess) error = Allow<__nv_bfloat16, 64>();
    if (error == cudaSuccess) error = Allow<__nv_bfloat16, 128>();
    if (error == cudaSuccess) error = Allow<__half, 64>();
    if (error == cudaSuccess) error = Allow<__half, 128>();
    found.has_code = error == cudaSuccess;
  }
  if (error != cudaSuccess) (void)cudaGetLastError();
  return found;
}

// The current device, looked at once: these calls cost more than a launch.
HopperDevice CurrentDevice() {
  constexpr int kMost = 64;
  static HopperDevice devices[kMost];
  static std::once_flag looked[kMost];
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};
  }
  if (device >= kMost) return Look(device);
  std::call_once(looked[device], [device] { devices[device] = Look(device); });
  return devices[device];
}

// Few sampled rows: tiles of 64 rows whose keys the three warpgroups share.
bool Shares(const AttentionProblem& p, const TileList& list) {
  return list.prefix == nullptr && p.sampling.row_every < 1 << 30 &&
         p.q.seq <= int64_t{p.sampling.row_every} * 2 * kRowGroup;
}

// The same partials in tiles of 64 rows.
TileList SmallTiles(const AttentionProblem& p, TileList list) {
  const auto partials = static_cast<int>(list.PartialsPerSequence());
  const int64_t rows = (p.q.seq + p.sampling.row_every - 1) / p.sampling.row_every;
  list.rows_per_tile = kRowGroup;
  list.warps_per_tile = kRowGroup / 16;
  list.tiles_per_sequence = static_cast<int>((rows + kRowGroup - 1) / kRowGroup);
  list.max_tiles = int64_t{list.tiles_per_sequence} * list.sampled_sequences;
  list.spare_partials = partials - list.tiles_per_sequence * list.warps_per_tile;
  return list;
}

// (sequence, head) pairs whose tiles are dealt out together. The keys of many would not stay in the L2; but
// where a multiprocessor gets few tiles, all are dealt out from the longest to the shortest, or some would
// get two long ones.
int PairsAtOnce(const AttentionProblem& p, const TileList& list, int multiprocessors) {
  constexpr int64_t kTogether = int64_t{16} << 20;
  constexpr int64_t kFewTiles = 9;
  const int64_t group = p.q.heads / p.k.heads;
  const int64_t all = int64_t{list.sampled_sequences} * list.heads;
  if (list.Items() <= kFewTiles * multiprocessors) return static_cast<int>(std::max<int64_t>(all, 1));
  const int64_t bytes = std::max<int64_t>(1, p.k.seq * p.k.dim * 2);
  return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(kTogether / bytes, 4096)) * group);
}

SmallDivisors DivisorsOf(const AttentionProblem& p, const TileList& list) {
  const auto pairs = static_cast<uint32_t>(list.sampled_sequences * list.heads);
  const auto together = std::min(static_cast<uint32_t>(list.pairs_at_once), pairs);
  SmallDivisors by;
  by.together = Divisor(together);
  by.group = Divisor(together * static_cast<uint32_t>(list.tiles_per_sequence));
  by.whole_groups = pairs / together;
  by.rest = Divisor(std::max(pairs % together, 1u));
  by.heads = Divisor(static_cast<uint32_t>(list.heads));
  by.rows = Divisor(static_cast<uint32_t>(p.sampling.row_every));
  by.first_sequence = static_cast<int>(p.sampling.sequence_offset % p.sampling.sequence_every);
  by.first_row = static_cast<uint32_t>(p.sampling.row_offset) % by.rows.by;
  return by;
}

template <typename T, int kDim>
int Launch(const AttentionProblem& p, const TileList& list, const uint32_t* enabled, WarpPartial* partials,
           cudaStream_t stream) {
  CUtensorMap map;
  if (!EncodeKeys(p.k, &map)) return cudaErrorInvalidValue;
  const bool shares = Shares(p, list);
  TileList ordered = shares ? SmallTiles(p, list) : list;
  const int multiprocessors = CurrentDevice().multiprocessors;
  ordered.pairs_at_once = PairsAtOnce(p, ordered, multiprocessors);
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(ordered.Items(), multiprocessors));
  constexpr int kShared = sizeof(Shared<kDim>) + 1024;
  const auto kernel = shares ? HopperProbe<T, kDim, true> : HopperProbe<T, kDim, false>;
  kernel<<<blocks, kThreads, kShared, stream>>>(p, ordered, shares ? DivisorsOf(p, ordered) : SmallDivisors(),
                                                map, enabled, partials);
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
         CurrentDevice().has_code && Encoder() != nullptr;
}

int LaunchHopper(const AttentionProblem& p, const TileList& list, const uint32_t* enabled,
                 WarpPartial* partials, cudaStream_t stream) {
  if (list.Items() == 0) return cudaSuccess;
  return p.q.dtype == kernels::DType::kBf16 ? Launch<__nv_bfloat16>(p, list, enabled, partials, stream)
                                            : Launch<__half>(p, list, enabled, partials, stream);
}

}  // namespace foreshock::cuda
