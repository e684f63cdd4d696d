// Partial values: per-step c_i of parameter shards, added up over ranks before signs are taken.
#pragma once

#include <optional>
#include <vector>

#include "head_merge.h"

namespace foreshock::merge {

// The entries of a head that make its whole: where the senders say which part of how many theirs is, one of each
// part (the lowest rank's: replica groups send the same), and nothing when a part is missing. Else all, when
// `all_there` says that nobody is missing.
std::vector<Entry> WholeOf(const std::vector<Entry>& entries, bool all_there);

// The c_i of a head by step, summed over its shards; nullopt when hashes or steps do not agree.
std::optional<std::vector<double>> SumShards(const std::vector<Entry>& entries);

// What an unsharded process would have sent.
struct Window {
  MergedHead projection;                // sum c_i, n
  std::optional<MergedHead> sign_mean;  // sum of signs, n; nothing when every c_i is 0
  MergedHead drift_ratio;               // sum c_i, sum |c_i|
};
Window Summarise(const std::vector<double>& steps);

// update_sign_mean_i and update_drift_ratio_i that belong to update_projection_i; 0: it is not one.
uint16_t SignMeanOf(uint16_t projection);
uint16_t DriftRatioOf(uint16_t projection);

}  // namespace foreshock::merge
