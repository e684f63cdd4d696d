// How the attention kernels cut a problem into work: tiles of sampled rows of one sequence and one query
// head.
#pragma once

#include <cstdint>

#include "foreshock/sdk/attention_probe.h"

namespace foreshock::cuda {

using kernels::AttentionProblem;

inline constexpr int kRowGroup = 64;  // rows that four warps own together

// Division of numbers below 2^31 by a number that the host knows: a product and a shift.
struct Divisor {
  uint32_t by = 1;
  uint32_t factor = 1;
  int shift = 0;

  Divisor() = default;
  explicit Divisor(uint32_t divisor) : by(divisor) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor)) / divisor + 1);
  }
  __device__ __forceinline__ uint32_t Of(uint32_t n) const { return (__umulhi(factor, n) + n) >> shift; }
};

// The tiles of a problem. Without cu_seqlens every sequence has the same number of tiles; with them `prefix`
// (device memory, sampled_sequences + 2 entries, written by PlanTiles) tells how many tiles come before each
// sampled sequence, then the total, then whether the offsets are good; max_tiles bounds that total.
struct TileList {
  int rows_per_tile = 64;
  int warps_per_tile = 4;  // each leaves one partial result
  int heads = 0;
  int sampled_sequences = 0;
  int tiles_per_sequence = 0;  // 0 with cu_seqlens
  int spare_partials = 0;      // of each sequence, no cu_seqlens: nobody's, but they must be neutral
  int pairs_at_once = 1;       // (sequence, head) pairs worked on together, so that their keys stay in the L2
  int64_t max_tiles = 0;       // of one head
  const int32_t* prefix = nullptr;

  __host__ __device__ int64_t Items() const { return max_tiles * heads; }
  // Of a sequence and head, no cu_seqlens.
  __host__ __device__ int64_t PartialsPerSequence() const {
    return int64_t{tiles_per_sequence} * warps_per_tile + spare_partials;
  }
  __host__ __device__ int64_t PartialsPerHead() const {
    return tiles_per_sequence > 0 ? PartialsPerSequence() * sampled_sequences : max_tiles * warps_per_tile;
  }
};

// A tile: sampled rows first_row, first_row + row_every, ... (`rows` of them) of one sequence and head.
struct Tile {
  int sequence = 0;
  int batch = 0;  // in the tensors
  int head = 0;
  int first_row = 0;
  int rows = 0;
  int q_len = 0;
  int k_len = 0;
  int64_t q_begin = 0;  // in the tensors
  int64_t k_begin = 0;
  int64_t partial = 0;  // of the first warp, within the head
  bool last_of_sequence = false;
};

struct KeyBounds {
  int first = 0;
  int last = 0;  // first >= last: no keys
};

// A row's place among the keys: causality and windows are counted from here.
__device__ inline int64_t PositionOf(const AttentionProblem& p, const Tile& t, int row) {
  const int shift = p.align == kernels::QueryAlign::kBottomRight ? t.k_len - t.q_len : 0;
  return row + p.query_offset + shift;
}

// The keys that position, causality and window let the rows of a tile see: bounds rise with the row.
struct RowKeys {
  int64_t first = 0;  // of row 0; both may lie outside the sequence
  int64_t last = 0;
  int every = 1;  // what a row adds to both
  int k_len = 0;

  // Of the tile's row i.
  __device__ KeyBounds Of(int i) const {
    const int64_t rise = int64_t{every} * i;
    const int64_t from = min(max(first + rise, int64_t{0}), int64_t{k_len});
    return {static_cast<int>(from), static_cast<int>(max(min(last + rise, int64_t{k_len}), from))};
  }
  // Those that any of rows [begin, begin + count) may see.
  __device__ KeyBounds OfRows(int begin, int count) const {
    if (count <= 0) return {};
    const int from = Of(begin).first;
    return {from, max(from, Of(begin + count - 1).last)};
  }
};

__device__ inline RowKeys KeysOf(const AttentionProblem& p, const Tile& t) {
  constexpr int64_t kFar = int64_t{1} << 60;
  const int64_t position = PositionOf(p, t, t.first_row);
  RowKeys keys{-kFar, kFar, p.sampling.row_every, t.k_len};
  if (p.causal) keys.last = position + 1;
  if (p.window_right >= 0) keys.last = min(keys.last, position + p.window_right + 1);
  if (p.window_left >= 0) keys.first = position - p.window_left;
  return keys;
}

// Of one row of the sequence, and of some of the tile's.
__device__ inline KeyBounds KeysOf(const AttentionProblem& p, Tile t, int row) {
  t.first_row = row;
  return KeysOf(p, t).Of(0);
}
__device__ inline KeyBounds KeysOfRows(const AttentionProblem& p, const Tile& t, int begin, int count) {
  return KeysOf(p, t).OfRows(begin, count);
}

__device__ inline int SampledRows(const AttentionProblem& p, int ordinal, int q_len, int* first_row) {
  const int every = p.sampling.row_every;
  *first_row =
      static_cast<int>((static_cast<uint32_t>(p.sampling.row_offset) + static_cast<uint32_t>(ordinal)) %
                       static_cast<uint32_t>(every));
  return *first_row < q_len ? (q_len - 1 - *first_row) / every + 1 : 0;
}

__device__ inline int SampledSequence(const AttentionProblem& p, int ordinal) {
  const int every = p.sampling.sequence_every;
  return p.sampling.sequence_offset % every + ordinal * every;
}

// Fills everything but rows, from a sampled sequence's ordinal.
__device__ inline void FillSequence(const AttentionProblem& p, int ordinal, Tile* t) {
  t->sequence = SampledSequence(p, ordinal);
  if (p.cu_seqlens_q == nullptr) {
    t->batch = t->sequence;
    t->q_len = static_cast<int>(p.q.seq);
    t->k_len = static_cast<int>(p.k.seq);
    return;
  }
  const int32_t* k = p.cu_seqlens_k == nullptr ? p.cu_seqlens_q : p.cu_seqlens_k;
  t->q_begin = p.cu_seqlens_q[t->sequence];
  t->q_len = p.cu_seqlens_q[t->sequence + 1] - static_cast<int>(t->q_begin);
  t->k_begin = k[t->sequence];
  t->k_len = k[t->sequence + 1] - static_cast<int>(t->k_begin);
}

// Rows are dealt in groups of kRowGroup. The first tile takes what does not fill a whole one: of a causal
// problem those are the rows with the fewest keys, so that the long tiles are full.
__device__ inline void FillRows(const AttentionProblem& p, const TileList& list, int ordinal, int tile,
                                Tile* t) {
  int first = 0;
  const int rows = SampledRows(p, ordinal, t->q_len, &first);
  const int per_tile = list.rows_per_tile;
  const int filled = (rows + kRowGroup - 1) / kRowGroup * kRowGroup;
  // 0 for tiles of less than a group.
  const int missing = per_tile % kRowGroup == 0 ? (per_tile - filled % per_tile) % per_tile : 0;
  const int begin = max(0, tile * per_tile - missing);
  t->first_row = first + begin * p.sampling.row_every;
  t->rows = max(0, min((tile + 1) * per_tile - missing, rows) - begin);
}

// How many items there are to work on.
__device__ inline int64_t ItemCount(const TileList& list) {
  return list.prefix == nullptr ? list.Items() : int64_t{list.prefix[list.sampled_sequences]} * list.heads;
}

// Item `index` of the list, which is below 2^31. The longest tiles of a causal problem come first within a
// group of pairs, so that the last ones to finish are short.
__device__ inline Tile ItemAt(const AttentionProblem& p, const TileList& list, int64_t index) {
  Tile t;
  int ordinal = 0;
  int tile = 0;
  if (list.prefix == nullptr) {
    // No product here exceeds the number of items: 32 bits hold them, and divide several times faster.
    const auto at = static_cast<uint32_t>(index);
    const auto tiles = static_cast<uint32_t>(list.tiles_per_sequence);
    const auto heads = static_cast<uint32_t>(list.heads);
    const uint32_t pairs = static_cast<uint32_t>(list.sampled_sequences) * heads;
    const uint32_t together = min(static_cast<uint32_t>(list.pairs_at_once), pairs);
    const uint32_t first_pair = at / (together * tiles) * together;
    const uint32_t width = min(together, pairs - first_pair);
    const uint32_t within = at - first_pair * tiles;
    const uint32_t pair = first_pair + within % width;
    tile = static_cast<int>(tiles - 1 - within / width);
    ordinal = static_cast<int>(pair / heads);
    t.head = static_cast<int>(pair % heads);
    t.last_of_sequence = tile == list.tiles_per_sequence - 1;
    t.partial = ordinal * list.PartialsPerSequence() + int64_t{tile} * list.warps_per_tile;
  } else {
    const int at = static_cast<int>(index) / list.heads;
    t.head = static_cast<int>(index) % list.heads;
    int low = 0;
    int high = list.sampled_sequences;  // prefix[low] <= at < prefix[high]
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (list.prefix[middle] <= at ? low : high) = middle;
    }
    ordinal = low;
    tile = at - list.prefix[low];
    t.partial = int64_t{at} * list.warps_per_tile;
  }
  FillSequence(p, ordinal, &t);
  FillRows(p, list, ordinal, tile, &t);
  return t;
}

}  // namespace foreshock::cuda
