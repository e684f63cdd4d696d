// How the attention kernels cut a problem into work: tiles of sampled rows of one sequence and one query
// head.
#pragma once

#include <cstdint>

#include "foreshock/sdk/attention_probe.h"

namespace foreshock::cuda {

using kernels::AttentionProblem;

// The tiles of a problem. Without cu_seqlens every sequence has the same number of tiles; with them `prefix`
// (device memory, sampled_sequences + 2 entries, written by PlanTiles) tells how many tiles come before each
// sampled sequence, then the total, then whether the offsets are good; max_tiles bounds that total.
struct TileList {
  int rows_per_tile = 64;
  int warps_per_tile = 4;  // each leaves one partial result
  int heads = 0;
  int sampled_sequences = 0;
  int tiles_per_sequence = 0;  // no cu_seqlens
  int pairs_at_once = 1;       // (sequence, head) pairs worked on together, so that their keys stay in the L2
  int64_t max_tiles = 0;       // of one head
  const int32_t* prefix = nullptr;

  __host__ __device__ int64_t Items() const { return max_tiles * heads; }
  __host__ __device__ int64_t PartialsPerHead() const { return max_tiles * warps_per_tile; }
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
};

struct KeyBounds {
  int first = 0;
  int last = 0;  // first >= last: no keys
};

// Keys that position, causality and window let a row see.
__device__ inline int64_t PositionOf(const AttentionProblem& p, const Tile& t, int row) {
  const int shift = p.align == kernels::QueryAlign::kBottomRight ? t.k_len - t.q_len : 0;
  return row + p.query_offset + shift;
}

__device__ inline KeyBounds KeysOf(const AttentionProblem& p, const Tile& t, int row) {
  const int64_t position = PositionOf(p, t, row);
  int64_t first = 0;
  int64_t last = t.k_len;
  if (p.causal) last = min(last, position + 1);
  if (p.window_right >= 0) last = min(last, position + p.window_right + 1);
  if (p.window_left >= 0) first = max(first, position - p.window_left);
  first = min(first, int64_t{t.k_len});
  return {static_cast<int>(first), static_cast<int>(max(last, first))};
}

// The keys that any of rows [first, first + count) of the tile may see: bounds rise with the row.
__device__ inline KeyBounds KeysOfRows(const AttentionProblem& p, const Tile& t, int first, int count) {
  if (count <= 0) return {};
  const int every = p.sampling.row_every;
  const int low = KeysOf(p, t, t.first_row + first * every).first;
  return {low, max(low, KeysOf(p, t, t.first_row + (first + count - 1) * every).last)};
}

__device__ inline int SampledRows(const AttentionProblem& p, int ordinal, int q_len, int* first_row) {
  const int every = p.sampling.row_every;
  *first_row = static_cast<int>((int64_t{p.sampling.row_offset} + ordinal) % every);
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

__device__ inline void FillRows(const AttentionProblem& p, const TileList& list, int ordinal, int tile,
                                Tile* t) {
  int first = 0;
  const int rows = SampledRows(p, ordinal, t->q_len, &first);
  t->first_row = first + tile * list.rows_per_tile * p.sampling.row_every;
  t->rows = max(0, min(list.rows_per_tile, rows - tile * list.rows_per_tile));
}

// How many items there are to work on.
__device__ inline int64_t ItemCount(const TileList& list) {
  return list.prefix == nullptr ? list.Items() : int64_t{list.prefix[list.sampled_sequences]} * list.heads;
}

// Item `index` of the list. The longest tiles of a causal problem come first within a group of pairs, so
// that the last ones to finish are short.
__device__ inline Tile ItemAt(const AttentionProblem& p, const TileList& list, int64_t index) {
  Tile t;
  int ordinal = 0;
  int tile = 0;
  if (list.prefix == nullptr) {
    const int64_t pairs = int64_t{list.sampled_sequences} * list.heads;
    const int64_t group_items = int64_t{list.pairs_at_once} * list.tiles_per_sequence;
    const int64_t first_pair = index / group_items * list.pairs_at_once;
    const int width = static_cast<int>(min(int64_t{list.pairs_at_once}, pairs - first_pair));
    const int within = static_cast<int>(index % group_items);
    tile = list.tiles_per_sequence - 1 - within / width;
    const int64_t pair = first_pair + within % width;
    ordinal = static_cast<int>(pair / list.heads);
    t.head = static_cast<int>(pair % list.heads);
    t.partial = (int64_t{ordinal} * list.tiles_per_sequence + tile) * list.warps_per_tile;
  } else {
    const int at = static_cast<int>(index / list.heads);
    t.head = static_cast<int>(index % list.heads);
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
