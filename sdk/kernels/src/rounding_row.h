// One query row, recomputed in double: its exact output, its exact dQ, and how far the stored ones are from
// them.
#pragma once

#include <cstdint>

#include "arena.h"
#include "attention_problem.h"
#include "foreshock/sdk/rounding_probe.h"
#include "score_block.h"

namespace foreshock::kernels {

struct RoundingRow {
  bool counts = false;      // at least 2 valid keys
  bool tied = false;        // two largest scores differ by <= 1e-3; false where a score is NaN
  double output_error = 0;  // sum sign(O_ref)(O - O_ref), entries with O_ref = 0 left out
  double output_ulp = 0;    // sum ulp_bf16(O_ref) of the same entries
  int64_t output_elements = 0;
  double delta_output = 0;  // dO.(O - O_ref)
  double delta_exact = 0;   // dO.O_ref
  double delta_ref = 0;     // dO.O, O as stored
  double key_norm2 = 0;     // ||P K||^2
  double delta_error = 0;   // -(dQ - dQ_ref).(P K) / (scale ||P K||^2)
};

// A tile of key or value rows, and which ones it holds: rows that follow each other mostly use the same.
struct CachedTile {
  float* rows = nullptr;
  int64_t batch = -1;
  int64_t first = 0;
  int64_t count = 0;
  int64_t head = 0;
};

struct RoundingRowBuffers {
  float* q = nullptr;  // padded vectors
  float* o = nullptr;
  float* d_o = nullptr;
  float* dq = nullptr;
  CachedTile k_tile;
  CachedTile v_tile;
  double* probability = nullptr;  // k_len entries of each: valid keys only
  double* slope = nullptr;        // derivative of the soft-cap
  int32_t* key = nullptr;
  double* o_ref = nullptr;   // dv
  double* dq_ref = nullptr;  // d
  double* pk = nullptr;      // d
  ScoreBlock* block = nullptr;
};

RoundingRowBuffers LayoutRoundingRow(const RoundingProblem& p, Arena* arena);

RoundingRow ComputeRoundingRow(const RoundingProblem& p, const Sequence& sequence, int64_t row, int64_t head,
                               RoundingRowBuffers* buffers);

}  // namespace foreshock::kernels
