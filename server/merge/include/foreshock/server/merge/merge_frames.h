// Merging the frames of one step over ranks: pure, thread-safe.
//
// For each signal, layer and head the catalogue's rule (SignalMerge) makes one value of those that the ranks
// measured; a head that only one rank holds (tensor parallelism, or replicas that share the work) is taken as
// it is, so that disjoint heads form one row. NaN wins in extremes and replicated values. Missing heads count
// nowhere.
//
//   kMax, kMin       extreme of the ranks; weights (rows) add up. Which rank held it: ExtremeRank
//   kRatio           numerators, denominators and moments add up
//   kWeightedMean    mean by weight; entries of weight 0 count nothing
//   kSum             scalars add up. Of heads the lowest rank's: replicas measure the same weights
//   kReplicated      the lowest rank's
//
// Partial values (FSDP2, Series::flags kPartial: per-step c_i of a shard) are added up by step over the
// ranks, and then become what an unsharded process would have sent: update_projection (sum c_i, weight n),
// update_sign_mean (sum of signs, n; missing when every c_i is 0) and update_drift_ratio (sum c_i, sum
// |c_i|). The window of a head is missing when its ranks' direction hashes differ, when their steps differ,
// or when a shard is not there: a sum without it would be a wrong number. Series::shard and shards say which
// parts there are (of replica groups one counts); where they do not, every rank must have come.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "foreshock/wire/types.h"

namespace foreshock::merge {

struct RankFrame {
  uint32_t rank = 0;
  wire::Frame frame;  // whole
};

// `frames` are of one step, one a rank, at least one. `complete`: every rank that measures is among them. seq
// and dropped_before of the result are 0; `skipped` when a rank says so; the time is the latest.
wire::Frame MergeFrames(std::vector<RankFrame> frames, bool complete);

// The rank whose value the merged one of a kMax or kMin signal is (the lowest of several); nullopt when no
// rank measured the head or the signal has another rule.
std::optional<uint32_t> ExtremeRank(const std::vector<RankFrame>& frames, uint16_t signal,
                                    std::optional<uint32_t> layer, uint32_t head);

}  // namespace foreshock::merge
