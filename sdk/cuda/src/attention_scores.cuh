// From products q.k to scores: what masks, caps and biases do to a tile in the layout of attention_rows.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <climits>
#include <cstdint>

#include "attention_rows.cuh"
#include "attention_walk.cuh"

namespace foreshock::cuda {

// What the two rows of a thread are.
struct RowPair {
  int row[2];         // in the sequence
  KeyBounds keys[2];  // in the sequence
  int all_first;      // keys that all of the warp's rows see, those without keys apart
  int all_last;

  // Rows of the warp that starts at the tile's row `first`; those past the tile's end have no keys.
  __device__ __forceinline__ void Start(const AttentionProblem& p, const Tile& tile, int first) {
    Start(KeysOf(p, tile), tile.rows, first);
#pragma unroll
    for (int r = 0; r < 2; ++r) row[r] = tile.first_row + IndexOf(first, r) * p.sampling.row_every;
  }
  // The same without `row`, which only masks and biases need.
  __device__ __forceinline__ void Start(const RowKeys& of_tile, int tile_rows, int first) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = IndexOf(first, r);
      keys[r] = i < tile_rows ? of_tile.Of(i) : KeyBounds{};
    }
    all_first = __reduce_max_sync(kWarp, max(Has(0) ? keys[0].first : 0, Has(1) ? keys[1].first : 0));
    all_last =
        __reduce_min_sync(kWarp, min(Has(0) ? keys[0].last : INT_MAX, Has(1) ? keys[1].last : INT_MAX));
  }
  // True when every row of the warp that has keys sees all of keys [first, first + count).
  __device__ __forceinline__ bool SeeAll(int first, int count) const {
    return first >= all_first && first + count <= all_last;
  }
  __device__ __forceinline__ bool Has(int r) const { return keys[r].last > keys[r].first; }
  // Whether row r sees any of keys [first, first + count).
  __device__ __forceinline__ bool Meets(int r, int first, int count) const {
    return Has(r) && keys[r].first < first + count && keys[r].last > first;
  }
  // In the tile, of row r of the warp that starts at row `first`.
  __device__ static __forceinline__ int IndexOf(int first, int r) {
    return first + static_cast<int>(threadIdx.x % 32) / 4 + 8 * r;
  }
};

// Column of score e but for the thread's own offset.
__device__ constexpr int ColumnOf(int e) { return 8 * (e >> 1) + (e & 1); }

// Bit e: whether score e's key is one of the row's. first_key is that of this thread's score 0.
template <int kScores>
__device__ __forceinline__ uint32_t ValidScores(const KeyBounds& keys, int first_key) {
  static_assert(kScores <= 32);
  // The scores whose column is below c come first: two of every eight columns are this thread's.
  const auto below = [](int c) {
    const int n = min(max(c, 0) / 8 * 2 + min(max(c, 0) % 8, 2), kScores);
    return n >= 32 ? 0xffffffffu : (1u << n) - 1;
  };
  return below(keys.last - first_key) & ~below(keys.first - first_key);
}

// Adds a tile of products to the rows where the score is scale * q.k and nothing else. `to_log2` is
// scale * log2 e; keys start at first_key; `whole`: every entry is valid.
template <int kScores, int kColumns>
__device__ __forceinline__ void AddPlain(float (&y)[2 * kScores], float to_log2, const RowPair& pair,
                                         int first_key, bool whole, Row<kColumns> (&rows)[2], bool* settled) {
  TileExtremes x[2];
  if (first_key == 0) {
    rows[0].first_key = y[At(0, 0)] * to_log2;
    rows[1].first_key = y[At(1, 0)] * to_log2;
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int e = 0; e < kScores; ++e) y[At(r, e)] = fmaf(y[At(r, e)], to_log2, -rows[r].ref);
  }
  uint32_t valid[2] = {0xffffffffu, 0xffffffffu};
  if (!whole) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      valid[r] = ValidScores<kScores>(pair.keys[r], first_key + 2 * static_cast<int>(threadIdx.x % 4));
#pragma unroll
      for (int e = 0; e < kScores; ++e) y[At(r, e)] = valid[r] >> e & 1 ? y[At(r, e)] : Float(kMaskedBits);
    }
  }
  bool ready = *settled;
  if (!ready) {
    const bool meets[2] = {pair.Meets(0, first_key, 4 * kScores), pair.Meets(1, first_key, 4 * kScores)};
    ready = ChooseRefs<kScores>(y, meets, rows, settled);
  }
  if (whole) {
#pragma unroll
    for (int r = 0; r < 2; ++r) x[r] = ExtremesOf<kScores>(y, r, [](int) { return true; });
  } else {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      x[r] = ExtremesOf<kScores>(y, r, [&](int e) { return (valid[r] >> e & 1) != 0; });
    }
  }
  if (__any_sync(kWarp, !ready || x[0].Unusual() || x[1].Unusual())) {
    Settle<Log2Units, kScores>(y, rows, x, settled);
  }
  AddSettled<Log2Units, kScores>(y, x[0], 0, &rows[0]);
  AddSettled<Log2Units, kScores>(y, x[1], 1, &rows[1]);
}

// Element `index` of an array of any dtype.
__device__ __forceinline__ float LoadAny(const void* data, kernels::DType dtype, int64_t index) {
  switch (dtype) {
    case kernels::DType::kBf16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]);
    case kernels::DType::kFp16:
      return __half2float(static_cast<const __half*>(data)[index]);
    case kernels::DType::kFp32:
      return static_cast<const float*>(data)[index];
    case kernels::DType::kFp64:
      return static_cast<float>(static_cast<const double*>(data)[index]);
  }
  return NAN;  // refused before the launch
}

// The score of one entry, from its product; kMaskedBits: masked. Not inlined: it is called at 32 places of a
// tile.
static __device__ __noinline__ float ScoreOf(const AttentionProblem& p, const Tile& tile, int row, int key,
                                             float product) {
  const float masked = Float(kMaskedBits);
  float s = p.scale * product;
  if (p.softcap > 0) s = p.softcap * tanhf(s / p.softcap);
  if (p.keep_mask.data != nullptr) {
    const auto* keep = static_cast<const uint8_t*>(p.keep_mask.data);
    if (keep[p.keep_mask.Offset(tile.sequence, tile.head, row) + key * p.keep_mask.key_stride] == 0)
      return masked;
  }
  if (p.additive_mask.data != nullptr) {
    const kernels::ScoreView& mask = p.additive_mask;
    const float value =
        LoadAny(mask.data, mask.dtype, mask.Offset(tile.sequence, tile.head, row) + key * mask.key_stride);
    if (value <= static_cast<float>(kernels::kMaskedBelow)) return masked;
    s += value;
  }
  if (p.bias.data != nullptr) {
    const float value = LoadAny(p.bias.data, p.bias.dtype,
                                p.bias.Offset(tile.sequence, tile.head, row) + key * p.bias.key_stride);
    if (value == -INFINITY) return masked;
    s += value;
  }
  if (p.alibi_slopes != nullptr) {
    const int64_t distance = PositionOf(p, tile, row) - key;
    s -= p.alibi_slopes[tile.head] * static_cast<float>(distance < 0 ? -distance : distance);
  }
  return s;
}

// The general case: soft-cap, masks, biases. Counts the valid keys, which only this can tell.
template <int kScores, int kColumns>
__device__ __forceinline__ void AddFeatured(float (&y)[2 * kScores], const AttentionProblem& p,
                                            const Tile& tile, const RowPair& pair, int first_key,
                                            Row<kColumns> (&rows)[2], bool (&has_first_key)[2],
                                            bool* settled) {
  const int lane_column = 2 * static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll
    for (int e = 0; e < kScores; ++e) {
      const int key = first_key + ColumnOf(e) + lane_column;
      float s = Float(kMaskedBits);
      if (key >= pair.keys[r].first && key < pair.keys[r].last) {
        s = ScoreOf(p, tile, pair.row[r], key, y[At(r, e)]);
      }
      const bool valid = Bits(s) != kMaskedBits;
      rows[r].count += valid;
      if (e == 0 && key == 0) {
        has_first_key[r] = valid;
        rows[r].first_key = s;
      }
      y[At(r, e)] = valid ? s - rows[r].ref : Float(kMaskedBits);
    }
  }
  AddAny<NatUnits, kScores>(y, rows, settled);
}

}  // namespace foreshock::cuda
