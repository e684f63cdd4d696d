// What the attention kernels share: checks, the walk over sequences, the keys a row may see.
#pragma once

#include <cstdint>

#include "foreshock/sdk/attention_checks.h"
#include "foreshock/sdk/attention_probe.h"

namespace foreshock::kernels {

inline constexpr int64_t kMaxTokens = int64_t{1} << 31;
inline constexpr int64_t kMaxHeads = 65536;
inline constexpr int64_t kMaxDim = 4096;

// The sizes alone, whatever the pointers: what workspace sizes may be computed from.
KernelStatus CheckShape(const TensorView& t);
KernelStatus CheckTensor(const TensorView& t);
// Arguments and the contents of cu_seqlens.
KernelStatus CheckAttention(const AttentionProblem& p);

// One sequence: where its queries and keys lie in the tensors. Masks are indexed by `index`.
struct Sequence {
  int64_t index = 0;
  int64_t batch = 0;    // in the tensors
  int64_t q_begin = 0;  // in the tensors
  int64_t q_len = 0;
  int64_t k_begin = 0;
  int64_t k_len = 0;
};

int64_t SequenceCount(const AttentionProblem& p);
Sequence SequenceAt(const AttentionProblem& p, int64_t index);

// The sampled rows of the problem, sequence by sequence. f(const Sequence&, int64_t first_row); its rows are
// first_row, first_row + row_every, ... below q_len.
template <typename F>
void ForEachSampledSequence(const AttentionProblem& p, F&& f) {
  const RowSampling& s = p.sampling;
  const int64_t count = SequenceCount(p);
  int64_t ordinal = 0;
  for (int64_t b = s.sequence_offset % s.sequence_every; b < count; b += s.sequence_every, ++ordinal) {
    f(SequenceAt(p, b), (s.row_offset + ordinal) % s.row_every);
  }
}

// Keys [first, last) that position, causality and window let query `row` see; empty when last <= first.
struct KeyRange {
  int64_t first = 0;
  int64_t last = 0;
};

inline int64_t PositionOf(const AttentionProblem& p, const Sequence& s, int64_t row) {
  return row + p.query_offset + (p.align == QueryAlign::kBottomRight ? s.k_len - s.q_len : 0);
}

inline KeyRange KeysOf(const AttentionProblem& p, const Sequence& s, int64_t row) {
  const int64_t position = PositionOf(p, s, row);
  KeyRange range{0, s.k_len};
  if (p.causal && position + 1 < range.last) range.last = position + 1;
  if (p.window_right >= 0 && position + p.window_right + 1 < range.last)
    range.last = position + p.window_right + 1;
  if (p.window_left >= 0 && position - p.window_left > range.first) range.first = position - p.window_left;
  return range;
}

}  // namespace foreshock::kernels
