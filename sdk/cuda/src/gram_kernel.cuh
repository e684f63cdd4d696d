// G = W^T W of every head on the tensor cores, one thread block a chunk of rows.
//
//   grid: RowChunks; out: the chunk's partial G as upper 32 x 32 blocks, fp32
//
// Each warp owns upper blocks. bf16 and fp16 products are exact in fp32; fp32 weights are split into two bf16
// (16 bits of significand: the spectrum's last step, on W itself, makes up for the rest). The tensor cores
// truncate when they accumulate, so a running sum of 64 rows is added to a second, correctly rounded one.
#pragma once

#include "weight_tile.cuh"

namespace foreshock::cuda {

template <int N>
struct GramShape {
  static constexpr int kBlocks = GramBlocks(N);
  // 1, 3, 10, 12 warps for 32, 64, 128, 256.
  static constexpr int kBlocksPerWarp = N == 256 ? 3 : 1;
  static constexpr int kWarps = kBlocks / kBlocksPerWarp;
  static constexpr int kThreads = 32 * kWarps;
  // With three blocks a warp the registers do not hold a second sum: rows are split over more chunks instead.
  static constexpr bool kTwoSums = N != 256;
  // A power of 2 of the threads loads tiles, so that each walks along them in even steps.
  static constexpr int kLoaders = N == 32 ? 32 : N == 64 ? 64 : 256;
  static constexpr int kPerLoader = N * 8 / kLoaders;
  static constexpr int kTileBytes = N * kGramTile * 2;
};

template <typename T>
struct GramStages {
  static constexpr int kCount = 4;
  static constexpr int kTiles = 1;
};
template <>
struct GramStages<float> {
  static constexpr int kCount = 2;
  static constexpr int kTiles = 2;  // high and low halves
};

template <int N, typename T>
constexpr int GramSharedBytes() {
  return GramShape<N>::kTileBytes * GramStages<T>::kCount * GramStages<T>::kTiles;
}

// Where the chunks of this thread lie: in W (row i, column j of the first element) and in the tile.
template <int N, bool kHeadMajor>
struct TileChunk {
  int i, j, offset;
  __device__ __forceinline__ explicit TileChunk(int p) {
    const int q = static_cast<int>(threadIdx.x) + p * GramShape<N>::kLoaders;
    if constexpr (kHeadMajor) {
      constexpr int kLine = N / 8;
      i = q / kLine;
      j = q % kLine * 8;
      offset = ChunkOffset<kLine>(i, q % kLine);
    } else {
      i = q % 8 * 8;
      j = q / 8;
      offset = ChunkOffset<8>(j, q % 8);
    }
  }
};

// The tiles of one chunk of rows as this thread loads them: everything that stays the same from tile to tile.
template <int N, typename T, bool kHeadMajor>
struct TileLoader {
  static constexpr int kPerLoader = GramShape<N>::kPerLoader;
  const HeadRecord& h;
  const T* origin;  // of this thread's first chunk in the first tile
  int64_t tile_step, chunk_step;
  int row, row_end, column, row_step, column_step;

  __device__ __forceinline__ TileLoader(const HeadRecord& head, const RowChunk& chunk) : h(head) {
    const TileChunk<N, kHeadMajor> first(0), second(kPerLoader > 1 ? 1 : 0);
    row = chunk.first + first.i;
    row_end = chunk.first + chunk.rows;
    column = first.j;
    row_step = second.i - first.i;
    column_step = second.j - first.j;
    origin = static_cast<const T*>(h.data) + row * h.row_stride + column * h.col_stride;
    tile_step = kGramTile * h.row_stride;
    chunk_step = row_step * h.row_stride + column_step * h.col_stride;
  }
  // Elements of chunk p of a tile that exist, 0 to 8.
  __device__ __forceinline__ int Valid(int tile, int p) const {
    const int i = row + tile * kGramTile + p * row_step, j = column + p * column_step;
    const int along = kHeadMajor ? h.d_head - j : row_end - i;
    const bool line = kHeadMajor ? i < row_end : j < h.d_head;
    return line ? max(0, min(along, 8)) : 0;
  }
  __device__ __forceinline__ const T* Place(int tile, int p) const {
    return origin + tile * tile_step + p * chunk_step;
  }
};

// Eight elements of a line, zeros beyond the `valid` that exist. `stride`: elements, where `vector` is false.
template <typename T>
__device__ __forceinline__ void LoadChunk(const T* from, int64_t stride, bool vector, int valid, T (&w)[8]) {
  if (vector && valid == 8) {
    constexpr int kVectors = sizeof(T) / 2;
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      reinterpret_cast<uint4*>(w)[v] = __ldg(reinterpret_cast<const uint4*>(from) + v);
    return;
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) w[e] = e < valid ? from[e * stride] : T(0.0f);
}

// Shared addresses, from a tile's begin, of what a warp reads of its block for the first 16 rows.
template <int N, bool kHeadMajor>
struct BlockReads {
  int row, col;
  uint32_t a[2], b[2];
  __device__ __forceinline__ void Set(int block_row, int block_col) {
    row = block_row;
    col = block_col;
    const int lane = threadIdx.x & 31, in8 = lane & 7, which = lane >> 3;
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      if constexpr (kHeadMajor) {
        constexpr int kLine = N / 8;
        a[t] = ChunkOffset<kLine>(in8 + (which >> 1) * 8, (row + t * 16) / 8 + (which & 1));
        b[t] = ChunkOffset<kLine>(in8 + (which & 1) * 8, (col + t * 16) / 8 + (which >> 1));
      } else {
        a[t] = ChunkOffset<8>(row + t * 16 + in8 + (which & 1) * 8, which >> 1);
        b[t] = ChunkOffset<8>(col + t * 16 + in8 + (which >> 1) * 8, which & 1);
      }
    }
  }
  // The same for rows from k (a multiple of 16) on, in the tile at `stage` (a multiple of 128).
  __device__ __forceinline__ static uint32_t At(uint32_t stage, uint32_t first, int k) {
    if constexpr (kHeadMajor) return stage + first + k * N * 2;
    return stage + (first ^ (k * 2));  // chunk k / 8 under the swizzle
  }
};

// Accumulates one upper block over a tile. `high` and `low` are the tile's shared addresses.
template <int N, typename T, bool kHeadMajor>
__device__ __forceinline__ void TileProduct(uint32_t high, uint32_t low,
                                            const BlockReads<N, kHeadMajor>& reads, float (&acc)[2][4][4]) {
  constexpr bool kSplit = sizeof(T) == 4;
  using Reads = BlockReads<N, kHeadMajor>;
#pragma unroll
  for (int k = 0; k < kGramTile; k += 16) {
    uint32_t a[kSplit ? 2 : 1][2][4], b[kSplit ? 2 : 1][2][4];
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      LoadMatrices<kHeadMajor>(a[0][t], Reads::At(high, reads.a[t], k));
      LoadMatrices<kHeadMajor>(b[0][t], Reads::At(high, reads.b[t], k));
      if constexpr (kSplit) {
        LoadMatrices<kHeadMajor>(a[1][t], Reads::At(low, reads.a[t], k));
        LoadMatrices<kHeadMajor>(b[1][t], Reads::At(low, reads.b[t], k));
      }
    }
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const int t = n / 2, s = n % 2 * 2;
        if constexpr (kSplit) {
          MultiplyAdd<T>(acc[m][n], a[1][m], b[0][t][s], b[0][t][s + 1]);
          MultiplyAdd<T>(acc[m][n], a[0][m], b[1][t][s], b[1][t][s + 1]);
        }
        MultiplyAdd<T>(acc[m][n], a[0][m], b[0][t][s], b[0][t][s + 1]);
        // low * low has one sign on the diagonal alone.
        if constexpr (kSplit) {
          if (reads.row == reads.col) MultiplyAdd<T>(acc[m][n], a[1][m], b[1][t][s], b[1][t][s + 1]);
        }
      }
    }
  }
}

// Row and column (in elements) of upper block number `b`.
template <int N>
__device__ __forceinline__ void BlockPlace(int b, int* row, int* col) {
  constexpr int kSide = N / kGramBlock;
  int r = 0;
  while (b >= kSide - r) b -= kSide - r++;
  *row = r * kGramBlock;
  *col = (r + b) * kGramBlock;
}

template <int N, typename T, bool kHeadMajor>
__device__ void GramOfChunk(const HeadRecord& h, const RowChunk& chunk, float* out, unsigned char* shared) {
  using Shape = GramShape<N>;
  constexpr bool kSplit = sizeof(T) == 4;
  constexpr int kStages = GramStages<T>::kCount;
  constexpr int kStageBytes = Shape::kTileBytes * GramStages<T>::kTiles;
  constexpr int kPerLoader = Shape::kPerLoader;
  constexpr int kOwn = Shape::kBlocksPerWarp;
  const uint32_t base = SharedAddress(shared);
  const int warp = threadIdx.x >> 5;
  const bool loads = threadIdx.x < Shape::kLoaders;
  const int tiles = (chunk.rows + kGramTile - 1) / kGramTile;
  const TileLoader<N, T, kHeadMajor> loader(h, chunk);
  const int64_t stride = kHeadMajor ? h.col_stride : h.row_stride;

  BlockReads<N, kHeadMajor> reads[kOwn];
#pragma unroll
  for (int o = 0; o < kOwn; ++o) {
    int row, col;
    BlockPlace<N>(warp * kOwn + o, &row, &col);
    reads[o].Set(row, col);
  }
  float sum[kOwn][2][4][4] = {};

  // 16-bit: straight into shared memory, kStages - 1 tiles ahead.
  const auto copy = [&](int tile) {
    if (loads && tile < tiles) {
      unsigned char* stage = shared + tile % kStages * kStageBytes;
#pragma unroll
      for (int p = 0; p < kPerLoader; ++p) {
        const int offset = TileChunk<N, kHeadMajor>(p).offset;
        const int valid = loader.Valid(tile, p);
        const T* from = valid > 0 ? loader.Place(tile, p) : static_cast<const T*>(h.data);
        if (h.vector) {
          CopyAsync16(SharedAddress(stage) + offset, from, valid * 2);
        } else if constexpr (!kSplit) {
          T w[8];
          LoadChunk<T>(from, stride, false, valid, w);
          *reinterpret_cast<uint4*>(stage + offset) = *reinterpret_cast<const uint4*>(w);
        }
      }
    }
    CommitCopies();
  };
  // fp32: through registers, one tile ahead, split on the way.
  [[maybe_unused]] float ahead[kSplit ? kPerLoader : 1][8];
  const auto fetch = [&](int tile) {
    if (!loads || tile >= tiles) return;
#pragma unroll
    for (int p = 0; p < kPerLoader; ++p) {
      const int valid = loader.Valid(tile, p);
      const T* from = valid > 0 ? loader.Place(tile, p) : static_cast<const T*>(h.data);
      if constexpr (kSplit) LoadChunk<float>(from, stride, h.vector, valid, ahead[p]);
    }
  };
  const auto put = [&](int tile) {
    if (!loads || tile >= tiles) return;
    unsigned char* stage = shared + tile % kStages * kStageBytes;
#pragma unroll
    for (int p = 0; p < kPerLoader; ++p) {
      const int offset = TileChunk<N, kHeadMajor>(p).offset;
      uint32_t high[4], low[4];
      if constexpr (kSplit) {
#pragma unroll
        for (int e = 0; e < 4; ++e) SplitPair(ahead[p][2 * e], ahead[p][2 * e + 1], &high[e], &low[e]);
        *reinterpret_cast<uint4*>(stage + offset) = make_uint4(high[0], high[1], high[2], high[3]);
        *reinterpret_cast<uint4*>(stage + Shape::kTileBytes + offset) =
            make_uint4(low[0], low[1], low[2], low[3]);
      }
    }
  };

  if constexpr (kSplit) {
    fetch(0);
    put(0);
  } else {
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) copy(s);
  }
  for (int tile = 0; tile < tiles; ++tile) {
    if constexpr (!kSplit) WaitCopies<kStages - 2>();
    __syncthreads();
    if constexpr (kSplit) {
      fetch(tile + 1);
    } else {
      copy(tile + kStages - 1);
    }
    const uint32_t stage = base + tile % kStages * kStageBytes;
#pragma unroll
    for (int o = 0; o < kOwn; ++o) {
      if constexpr (Shape::kTwoSums) {
        float acc[2][4][4] = {};
        TileProduct<N, T, kHeadMajor>(stage, stage + Shape::kTileBytes, reads[o], acc);
#pragma unroll
        for (int e = 0; e < 32; ++e) (&sum[o][0][0][0])[e] += (&acc[0][0][0])[e];
      } else {
        TileProduct<N, T, kHeadMajor>(stage, stage + Shape::kTileBytes, reads[o], sum[o]);
      }
    }
    if constexpr (kSplit) put(tile + 1);
  }

  const int group = (threadIdx.x & 31) >> 2, pair = threadIdx.x & 3;
#pragma unroll
  for (int o = 0; o < kOwn; ++o) {
    float* block = out + (warp * kOwn + o) * kGramBlock * kGramBlock;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        float* at = block + (m * 16 + group) * kGramBlock + n * 8 + pair * 2;
        *reinterpret_cast<float2*>(at) = make_float2(sum[o][m][n][0], sum[o][m][n][1]);
        *reinterpret_cast<float2*>(at + 8 * kGramBlock) = make_float2(sum[o][m][n][2], sum[o][m][n][3]);
      }
    }
  }
}

template <int N, typename T>
__global__ void __launch_bounds__(GramShape<N>::kThreads, N == 128 && sizeof(T) == 2 ? 2 : 1)
    GramKernel(const HeadRecord* heads, const RowChunk* chunks, float* gram, const int* flag) {
  extern __shared__ __align__(128) unsigned char shared[];
  if (flag != nullptr && *flag == 0) return;
  const RowChunk chunk = chunks[blockIdx.x];
  const HeadRecord h = heads[chunk.head];
  float* out = gram + h.gram_at + static_cast<int64_t>(chunk.part) * GramFloats(N);
  if (h.order == Order::kHeadMajor) {
    GramOfChunk<N, T, true>(h, chunk, out, shared);
  } else {
    GramOfChunk<N, T, false>(h, chunk, out, shared);
  }
}

}  // namespace foreshock::cuda
