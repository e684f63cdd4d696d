// Cutting a problem into tiles, on the host: what the attention and the rounding probe share. CUDA sources
// only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention_walk.cuh"

namespace foreshock::cuda {

inline constexpr size_t kWorkspaceAlignment = 256;
inline constexpr int64_t kMostTokens = (int64_t{1} << 30) - 1;  // of one sequence: rows and keys are ints
inline constexpr int64_t kMostItems = (int64_t{1} << 31) - 1;

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline size_t AlignUp(size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

inline bool TooLong(const AttentionProblem& p) { return p.q.seq > kMostTokens || p.k.seq > kMostTokens; }

inline TileList MakeTiles(const AttentionProblem& p, int rows_per_tile, int warps_per_tile) {
  const kernels::RowSampling& s = p.sampling;
  const bool packed = p.cu_seqlens_q != nullptr;
  const int64_t sequences = packed ? p.n_sequences : p.q.batch;
  const int64_t offset = s.sequence_offset % s.sequence_every;
  TileList list;
  list.rows_per_tile = rows_per_tile;
  list.warps_per_tile = warps_per_tile;
  list.heads = static_cast<int>(p.q.heads);
  list.sampled_sequences =
      static_cast<int>(sequences > offset ? CeilDiv(sequences - offset, s.sequence_every) : 0);
  const int64_t most = int64_t{rows_per_tile} * s.row_every;
  if (packed) {
    // A sequence of n rows has at most n / most + 1 tiles, and none where it is empty.
    list.max_tiles = std::min(p.q.seq / most + list.sampled_sequences, p.q.seq);
  } else {
    list.tiles_per_sequence = static_cast<int>(CeilDiv(p.q.seq, most));
    list.max_tiles = int64_t{list.tiles_per_sequence} * list.sampled_sequences;
  }
  return list;
}

// The parts of a workspace: a packed problem's tile prefix, then the kernel's own records, `record_bytes` of
// them a head.
struct WorkspaceLayout {
  size_t records = 0;
  size_t end = 0;
};

inline WorkspaceLayout LayOut(const TileList& list, size_t record_bytes) {
  WorkspaceLayout at;
  at.records = AlignUp((size_t{2} + static_cast<size_t>(list.sampled_sequences)) * sizeof(int32_t));
  at.end = at.records + record_bytes * static_cast<size_t>(list.heads);
  return at;
}

// The workspace's first aligned byte; null when it is too small.
inline unsigned char* AlignedBase(const kernels::Workspace& workspace, const WorkspaceLayout& at) {
  const auto address = reinterpret_cast<uintptr_t>(workspace.data);
  const size_t skip = AlignUp(address) - address;
  if (workspace.data == nullptr || workspace.bytes < at.end + skip) return nullptr;
  return static_cast<unsigned char*>(workspace.data) + skip;
}

}  // namespace foreshock::cuda
