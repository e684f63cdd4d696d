// The statistics of one row of scores, met block by block: one pass, the two largest kept, nothing stored.
#pragma once

#include <cstdint>

#include "foreshock/sdk/attention_probe.h"
#include "score_block.h"

namespace foreshock::kernels {

struct OnlineRow {
  double largest = 0;  // meaningless while count is 0
  double second = 0;   // -infinity while count is below 2
  double smallest = 0;
  double sum = 0;        // of e^(s - largest)
  double weighted = 0;   // of e^(s - largest) (s - largest)
  double first_key = 0;  // the score of key 0
  int64_t count = 0;
  bool has_first_key = false;
  bool has_nan = false;
};

// Adds one block; `first_key` is the block's first key in the sequence.
void AddBlock(const ScoreBlock& block, int64_t first_key, OnlineRow* row);

// Adds a finished row to its head: learned sinks join the softmax here.
void AddRow(const OnlineRow& row, const float* sinks, int32_t n_sinks, AttentionHeadStats* head);

// Turns sums over no row into a clean start; call before the first AddRow.
void StartHead(AttentionHeadStats* head);

}  // namespace foreshock::kernels
