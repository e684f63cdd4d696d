// G of a head in shared memory: fetched by copies that no thread waits for, and turned so that the solvers
// read it in any order without two lanes at one bank.
//
// The upper blocks of 32 x 32 lie as in global memory; within a row, chunk c of four entries is at c ^ (row %
// 8).
#pragma once

#include "weight_tile.cuh"

namespace foreshock::cuda {

// Whether G of N columns is staged where there is room. Two of 256 would be more than a multiprocessor has;
// those of 32 are read in no time.
template <int N>
constexpr bool MayBeStaged() {
  return N == 64 || N == 128;
}

// Begins the copy of G (GramFloats(N) of them) by all of the block's threads; CommitCopies and WaitCopies are
// the caller's.
template <int N, int kThreads>
__device__ __forceinline__ void StageGram(const float* g, float* to) {
  constexpr int kChunks = GramFloats(N) / 4;
  const uint32_t shared = SharedAddress(to);
  for (int e = static_cast<int>(threadIdx.x); e < kChunks; e += kThreads)
    CopyAsync16(shared + ((e & ~7) | ((e ^ e >> 3) & 7)) * 16, g + e * 4, 16);
}

// The 16 x 16 entries from (16 r, 16 c) on as a lane holds them in the tensor cores' left operand: rows lane
// / 4 and 8 more, columns lane % 4 * 2, the next, and 8 more of both. In the operand's order: (0, 0), (0, 1),
// (8, 0), (8, 1), (0, 8) ...
template <int N>
__device__ __forceinline__ void StagedTile(const float* g, int r, int c, float (&out)[8]) {
  const int lane = threadIdx.x & 31, in_row = lane >> 2, in_column = (lane & 3) * 2;
  if (r / 2 <= c / 2) {
    const float* block = g + GramBlockAt(r / 2, c / 2, N) * kGramBlock * kGramBlock;
    const int row = r % 2 * 16 + in_row, column = c % 2 * 16 + in_column;
#pragma unroll
    for (int a = 0; a < 8; a += 2) {
      const int i = row + (a & 2) * 4, j = column + (a & 4) * 2;
      const float2 two =
          *reinterpret_cast<const float2*>(block + i * kGramBlock + (j / 4 ^ (i & 7)) * 4 + j % 4);
      out[a] = two.x;
      out[a + 1] = two.y;
    }
  } else {
    const float* block = g + GramBlockAt(c / 2, r / 2, N) * kGramBlock * kGramBlock;
    const int row = c % 2 * 16 + in_column, column = r % 2 * 16 + in_row;
#pragma unroll
    for (int a = 0; a < 8; ++a) {
      const int i = row + (a & 4) * 2 + (a & 1), j = column + (a & 2) * 4;
      out[a] = block[i * kGramBlock + (j / 4 ^ (i & 7)) * 4 + j % 4];
    }
  }
}

// Entries (k, row) to (k + 3, row), k a multiple of 4.
template <int N>
__device__ __forceinline__ void StagedFour(const float* g, int k, int row, float (&out)[4]) {
  const int a = k / kGramBlock, b = row / kGramBlock, i = k % kGramBlock, j = row % kGramBlock;
  if (a <= b) {
    const float* block = g + GramBlockAt(a, b, N) * kGramBlock * kGramBlock;
#pragma unroll
    for (int e = 0; e < 4; ++e) out[e] = block[(i + e) * kGramBlock + (j / 4 ^ ((i + e) & 7)) * 4 + j % 4];
  } else {
    const float* block = g + GramBlockAt(b, a, N) * kGramBlock * kGramBlock;
    const float4 four = *reinterpret_cast<const float4*>(block + j * kGramBlock + (i / 4 ^ (j & 7)) * 4);
    out[0] = four.x;
    out[1] = four.y;
    out[2] = four.z;
    out[3] = four.w;
  }
}

}  // namespace foreshock::cuda
