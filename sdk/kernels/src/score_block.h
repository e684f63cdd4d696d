// Scores of one query row against a block of keys.
#pragma once

#include <cstdint>

#include "attention_problem.h"

namespace foreshock::kernels {

inline constexpr int64_t kBlockKeys = 128;

// Vectors are padded with zeros to whole groups of kDotLanes, the number of partial sums of a dot product:
// an fp32 sum then rounds dim / 16 times a lane, within the accuracy that the signals promise.
inline constexpr int64_t kDotLanes = 16;
constexpr int64_t PaddedDim(int64_t dim) { return (dim + kDotLanes - 1) / kDotLanes * kDotLanes; }

// Loads `count` rows of one head from `first` on, PaddedDim(dim) apart.
void LoadRows(const TensorView& t, int64_t batch, int64_t first, int64_t count, int64_t step, int64_t head,
              float* out);

// The valid entries of a row in one block, in rising key order.
struct ScoreBlock {
  double score[kBlockKeys];
  double capped[kBlockKeys];  // softcap(scale q k), before bias; filled when asked for
  int32_t key[kBlockKeys];    // relative to the block's first key
  int32_t count = 0;
};

enum class DotPrecision : uint8_t {
  kFloat,   // fp32 partial sums, last sum in double
  kDouble,  // all in double
};

// A row of one query head, and what its masks need.
struct ScoreRow {
  const AttentionProblem* problem = nullptr;
  const Sequence* sequence = nullptr;
  const float* q = nullptr;  // PaddedDim floats
  int64_t row = 0;           // in the sequence
  int64_t head = 0;          // query head
  KeyRange keys;
};

// Scores against keys [first_key, first_key + count) of the sequence, count <= kBlockKeys; `k_tile` holds
// their rows as LoadRows lays them out. Masked keys are left out.
void ComputeScores(const ScoreRow& row, int64_t first_key, int64_t count, const float* k_tile,
                   DotPrecision precision, ScoreBlock* block);

}  // namespace foreshock::kernels
