// G = W^T W on Hopper's warpgroup instructions: the same result in the same place as gram_kernel.cuh, for
// heads of 64 or 128 columns whose lines run along d_model, or along d_head where they are of 16 bits.
//
// A tile of 64 rows lies in shared memory as the instructions take it: a line of 128 bytes for each column
// (lines along d_head: for each row, 64 columns after the other), swizzled. Each of the first warpgroups owns
// a 64 x 64 block of G (three of them for 128 columns, two on the diagonal). 16-bit weights are copied there
// by all threads. fp32 weights pass through the registers of one more warpgroup, which splits them into two
// bf16 while the others multiply all halves with all. (low^T low matters on the diagonal alone, where it has
// one sign. But a branch around it makes the compiler wait after each instruction.)
#pragma once

#include <type_traits>

#include "gram_kernel.cuh"
#include "hopper_ptx.cuh"

namespace foreshock::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
#define FS_HOPPER_CODE 1
#endif

template <int N, typename T>
struct HopperShape {
  static constexpr bool kSplit = sizeof(T) == 4;
  static constexpr int kBlocks = N == 64 ? 1 : 3;
  static constexpr int kComputing = kBlocks * 128;
  static constexpr int kThreads = kComputing + (kSplit ? 128 : 0);
  static constexpr int kStages = kSplit ? 3 : 4;
  static constexpr int kTileBytes = N * kGramTile * 2;
  static constexpr int kStageBytes = kTileBytes * (kSplit ? 2 : 1);
  static constexpr int kSharedBytes = kStageBytes * kStages + 1024;  // room to align
  // Blocks that share a multiprocessor.
  static constexpr int kResident = N == 64 ? (kSplit ? 2 : 3) : (kSplit ? 1 : 2);
};

#ifdef FS_HOPPER_CODE

// d = (add ? d : 0) + A^T B over 16 rows, 64 x 64; fp32 weights have been split into bf16.
template <typename T>
__device__ __forceinline__ void GroupMultiply(float (&d)[32], uint64_t a, uint64_t b, int add) {
  if constexpr (__is_same(T, __half)) {
    hopper::Multiply64(d, a, b, add, __half{});
  } else {
    hopper::Multiply64(d, a, b, add, __nv_bfloat16{});
  }
}

// The products of one tile for the block at (row, col), into `acc`; waits for them.
template <int N, typename T, bool kHeadMajor>
__device__ __forceinline__ void TileOfGroup(uint32_t stage, int row, int col, float (&acc)[32]) {
  using Shape = HopperShape<N, T>;
  constexpr int kLine = kGramTile * 2;
  const uint64_t a = hopper::Descriptor(stage + row * kLine), b = hopper::Descriptor(stage + col * kLine);
  constexpr uint64_t kLow = Shape::kTileBytes / 16;  // from a high operand to its low one
  hopper::Forget(acc);
  hopper::FenceProducts();
#pragma unroll
  for (int k = 0; k < kGramTile / 16; ++k) {
    // 32 bytes of each line, or 16 lines.
    const uint64_t step = k * (kHeadMajor ? 16 * kLine / 16 : 2);
    if constexpr (Shape::kSplit) {
      GroupMultiply<T>(acc, a + kLow + step, b + step, k > 0);
      GroupMultiply<T>(acc, a + step, b + kLow + step, 1);
      GroupMultiply<T>(acc, a + kLow + step, b + kLow + step, 1);
      GroupMultiply<T>(acc, a + step, b + step, 1);
    } else if constexpr (kHeadMajor) {
      hopper::MultiplyLines64(acc, a + step, b + step, k > 0, T{});
    } else {
      GroupMultiply<T>(acc, a + step, b + step, k > 0);
    }
  }
  hopper::CommitProducts();
  hopper::WaitProducts<0>();
  hopper::Pin(acc);
}

// Writes a 64 x 64 block of G as its 32 x 32 blocks; the one below the diagonal is left out.
template <int N>
__device__ __forceinline__ void StoreGroup(const float (&sum)[32], int row, int col, float* out) {
  const int lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + warp * 16 + lane / 4 + half * 8, c = col + n * 8 + lane % 4 * 2;
      if (r / kGramBlock > c / kGramBlock) continue;
      float* at =
          out + (GramBlockAt(r / kGramBlock, c / kGramBlock, N) * kGramBlock + r % kGramBlock) * kGramBlock +
          c % kGramBlock;
      *reinterpret_cast<float2*>(at) = make_float2(sum[n * 4 + half * 2], sum[n * 4 + half * 2 + 1]);
    }
  }
}

// The chunks of a tile that one of kLoaders threads brings: the same eight rows of every kLoaders / 8-th
// column.
template <int N, typename T, int kLoaders>
struct LineLoader {
  static constexpr int kPer = N * 8 / kLoaders;
  static constexpr int kColumns =
      kLoaders / 8;  // from chunk to chunk: a multiple of 8, so the swizzle is the same
  static constexpr int kOffsetStep = kColumns * kGramTile * 2;
  const T* origin;
  int64_t row_stride, step;
  int left, columns, offset;  // rows from the first tile's on, columns of W from the first chunk's on
  bool vector;

  __device__ __forceinline__ LineLoader(const HeadRecord& h, const RowChunk& chunk, int thread)
      : row_stride(h.row_stride),
        step(kColumns * h.col_stride),
        left(chunk.rows - thread % 8 * 8),
        columns(h.d_head - thread / 8),
        offset(ChunkOffset<8>(thread / 8, thread % 8)),
        vector(h.vector && h.order == Order::kModelMajor) {
    origin = static_cast<const T*>(h.data) + (chunk.first + thread % 8 * 8) * row_stride +
             thread / 8 * h.col_stride;
  }
  __device__ __forceinline__ int Rows(int tile) const { return max(0, min(8, left - tile * kGramTile)); }
  __device__ __forceinline__ int Valid(int rows, int p) const { return p * kColumns < columns ? rows : 0; }
  __device__ __forceinline__ const T* Place(int tile) const { return origin + tile * kGramTile * row_stride; }
};

// The same as LineLoader for lines along d_head: a thread brings 16 bytes of every kRows-th row.
template <int N, typename T, int kLoaders>
struct RowLoader {
  static constexpr int kChunks = N / 8;             // of a row
  static constexpr int kRows = kLoaders / kChunks;  // a multiple of 8
  static constexpr int kPer = kGramTile / kRows;
  static constexpr int kOffsetStep = kRows * 128;
  const T* origin;
  int64_t row_stride, step;
  int left, columns, offset;  // rows from the thread's first on; columns of its chunk
  bool vector;

  __device__ __forceinline__ RowLoader(const HeadRecord& h, const RowChunk& chunk, int thread)
      : row_stride(h.row_stride),
        step(kRows * h.row_stride),
        left(chunk.rows - thread / kChunks),
        columns(max(0, min(8, h.d_head - thread % kChunks * 8))),
        offset(thread % kChunks / 8 * (kGramTile * 128) + ChunkOffset<8>(thread / kChunks, thread % 8)),
        vector(h.vector && h.order == Order::kHeadMajor) {
    origin =
        static_cast<const T*>(h.data) + (chunk.first + thread / kChunks) * row_stride + thread % kChunks * 8;
  }
  // What Place and Valid are given: rows that are left from a tile on.
  __device__ __forceinline__ int Rows(int tile) const { return left - tile * kGramTile; }
  __device__ __forceinline__ int Valid(int rows, int p) const { return p * kRows < rows ? columns : 0; }
  __device__ __forceinline__ const T* Place(int tile) const { return origin + tile * kGramTile * row_stride; }
};

template <int N, typename T, bool kHeadMajor>
__device__ void GramOfChunkHopper(const HeadRecord& h, const RowChunk& chunk, float* out,
                                  unsigned char* shared) {
  using Shape = HopperShape<N, T>;
  const int thread = static_cast<int>(threadIdx.x);
  const int tiles = (chunk.rows + kGramTile - 1) / kGramTile;
  const int group = thread / 128;

  if constexpr (Shape::kSplit) {
    const int row = N == 64 ? 0 : (group == 2 ? 64 : 0), col = N == 64 ? 0 : (group == 0 ? 0 : 64);
    using Loader = LineLoader<N, T, 128>;
    constexpr int kPer = Loader::kPer, kAll = Shape::kThreads;
    // Barriers: 1 + stage: filled; 1 + kStages + stage: free again.
    if (thread >= Shape::kComputing) {
      const Loader loader(h, chunk, thread - Shape::kComputing);
      float w[kPer][8];
      const auto fetch = [&](int tile) {
        const int rows = loader.Rows(tile);
        const T* from = loader.Place(tile);
#pragma unroll
        for (int p = 0; p < kPer; ++p)
          LoadChunk<T>(from + p * loader.step, loader.row_stride, loader.vector, loader.Valid(rows, p), w[p]);
      };
      fetch(0);
      for (int tile = 0; tile < tiles; ++tile) {
        const int s = tile % Shape::kStages;
        if (tile >= Shape::kStages) hopper::SyncNamed(1 + Shape::kStages + s, kAll);
        unsigned char* stage = shared + s * Shape::kStageBytes;
#pragma unroll
        for (int p = 0; p < kPer; ++p) {
          const int at = loader.offset + p * Loader::kOffsetStep;
          uint32_t high[4], low[4];
#pragma unroll
          for (int e = 0; e < 4; ++e) SplitPair(w[p][2 * e], w[p][2 * e + 1], &high[e], &low[e]);
          *reinterpret_cast<uint4*>(stage + at) = make_uint4(high[0], high[1], high[2], high[3]);
          *reinterpret_cast<uint4*>(stage + Shape::kTileBytes + at) =
              make_uint4(low[0], low[1], low[2], low[3]);
        }
        hopper::FenceForAsync();
        hopper::ArriveNamed(1 + s, kAll);
        if (tile + 1 < tiles) fetch(tile + 1);
      }
      return;
    }
    float sum[32] = {};
    for (int tile = 0; tile < tiles; ++tile) {
      const int s = tile % Shape::kStages;
      hopper::SyncNamed(1 + s, kAll);
      float acc[32];
      TileOfGroup<N, T, false>(SharedAddress(shared) + s * Shape::kStageBytes, row, col, acc);
      if (tile + Shape::kStages < tiles) hopper::ArriveNamed(1 + Shape::kStages + s, kAll);
#pragma unroll
      for (int e = 0; e < 32; ++e) sum[e] += acc[e];
    }
    StoreGroup<N>(sum, row, col, out);
  } else {
    const int row = group == 2 && N == 128 ? 64 : 0, col = N == 128 && group > 0 ? 64 : 0;
    constexpr int kLoaders = N == 64 ? 128 : 256;
    using Loader = std::conditional_t<kHeadMajor, RowLoader<N, T, kLoaders>, LineLoader<N, T, kLoaders>>;
    const Loader loader(h, chunk, thread);
    const int64_t in_chunk = kHeadMajor ? 1 : loader.row_stride;  // from value to value
    const auto copy = [&](int tile) {
      if (thread < kLoaders && tile < tiles) {
        unsigned char* stage = shared + tile % Shape::kStages * Shape::kStageBytes + loader.offset;
        const int rows = loader.Rows(tile);
        const T* from = rows > 0 ? loader.Place(tile) : loader.origin;
#pragma unroll
        for (int p = 0; p < Loader::kPer; ++p) {
          const int valid = loader.Valid(rows, p);
          if (loader.vector) {
            CopyAsyncOfLine(SharedAddress(stage) + p * Loader::kOffsetStep,
                            valid > 0 ? from + p * loader.step : from, valid * 2);
          } else {
            T w[8];
            LoadChunk<T>(from + p * loader.step, in_chunk, false, valid, w);
            *reinterpret_cast<uint4*>(stage + p * Loader::kOffsetStep) = *reinterpret_cast<const uint4*>(w);
          }
        }
      }
      CommitCopies();
    };
    float sum[32] = {};
#pragma unroll
    for (int s = 0; s < Shape::kStages - 1; ++s) copy(s);
    for (int tile = 0; tile < tiles; ++tile) {
      WaitCopies<Shape::kStages - 2>();
      hopper::FenceForAsync();
      __syncthreads();
      copy(tile + Shape::kStages - 1);
      float acc[32];
      TileOfGroup<N, T, kHeadMajor>(SharedAddress(shared) + tile % Shape::kStages * Shape::kStageBytes, row,
                                    col, acc);
#pragma unroll
      for (int e = 0; e < 32; ++e) sum[e] += acc[e];
    }
    StoreGroup<N>(sum, row, col, out);
  }
}

#endif  // FS_HOPPER_CODE

// kHeadMajor: lines along d_head, of 16-bit weights.
template <int N, typename T, bool kHeadMajor>
__global__ void __launch_bounds__(HopperShape<N, T>::kThreads, HopperShape<N, T>::kResident)
    GramHopperKernel(const HeadRecord* heads, const RowChunk* chunks, float* gram, const int* flag) {
#ifdef FS_HOPPER_CODE
  extern __shared__ unsigned char unaligned[];
  if (flag != nullptr && *flag == 0) return;
  unsigned char* shared = unaligned + (1024 - SharedAddress(unaligned) % 1024) % 1024;
  const RowChunk chunk = chunks[blockIdx.x];
  const HeadRecord h = heads[chunk.head];
  float* out = gram + h.gram_at + static_cast<int64_t>(chunk.part) * GramFloats(N);
  GramOfChunkHopper<N, T, kHeadMajor>(h, chunk, out, shared);
#endif
}

}  // namespace foreshock::cuda
