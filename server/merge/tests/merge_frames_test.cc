#include "foreshock/server/merge/merge_frames.h"

#include <gtest/gtest.h>

#include <optional>

#include <cmath>
#include <limits>

#include "foreshock/base/catalogue.h"

namespace foreshock::merge {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

wire::Series Row(uint16_t signal, std::vector<uint32_t> heads, std::vector<float> values,
                 std::vector<float> weights = {}) {
  wire::Series series;
  series.signal = signal;
  series.layer = 3;
  series.heads = std::move(heads);
  series.values = std::move(values);
  series.weights = std::move(weights);
  return series;
}

wire::Series Scalar(uint16_t signal, float value, std::vector<float> weights = {}) {
  wire::Series series;
  series.signal = signal;
  series.values = {value};
  series.weights = std::move(weights);
  return series;
}

RankFrame Of(uint32_t rank, std::vector<wire::Series> series) {
  RankFrame item;
  item.rank = rank;
  item.frame.step = 7;
  item.frame.seq = 100 + rank;
  item.frame.series = std::move(series);
  return item;
}

wire::Series Only(const wire::Frame& frame) {
  EXPECT_EQ(frame.series.size(), 1u);
  return frame.series.at(0);
}

TEST(MergeFrames, ExtremesNanWinsAndRowsAddUp) {
  const auto merged = Only(MergeFrames({Of(1, {Row(kLogitMax, {0, 1, 2}, {5, 2, 1}, {10, 10, 10})}),
                                        Of(0, {Row(kLogitMax, {0, 1, 2}, {4, kNan, -kInf}, {20, 20, 20})})},
                                       true));
  EXPECT_EQ(merged.values[0], 5);
  EXPECT_TRUE(std::isnan(merged.values[1]));
  EXPECT_EQ(merged.values[2], 1);
  EXPECT_EQ(merged.weights, (std::vector<float>{30, 30, 30}));
  EXPECT_TRUE(merged.present.empty());
  const auto least =
      Only(MergeFrames({Of(0, {Row(kLogitMin, {0}, {-4})}), Of(1, {Row(kLogitMin, {0}, {-5})})}, true));
  EXPECT_EQ(least.values[0], -5);
  EXPECT_TRUE(least.weights.empty());
}

TEST(MergeFrames, TheRankOfAnExtremeCanBeAskedFor) {
  const std::vector<RankFrame> frames = {Of(2, {Row(kLogitMax, {0, 1}, {5, 9})}),
                                         Of(0, {Row(kLogitMax, {0, 1}, {4, 9})}),
                                         Of(1, {Row(kLogitMax, {1}, {3})})};
  EXPECT_EQ(ExtremeRank(frames, kLogitMax, 3, 0), 2u);
  EXPECT_EQ(ExtremeRank(frames, kLogitMax, 3, 1), 0u);
  EXPECT_EQ(ExtremeRank(frames, kLogitMax, 3, 2), std::nullopt);
  EXPECT_EQ(ExtremeRank(frames, kLogitMax, 4, 0), std::nullopt);
  EXPECT_EQ(ExtremeRank(frames, kWqSigma1, 3, 0), std::nullopt);
}

TEST(MergeFrames, RatiosAddNumeratorsDenominatorsAndMoments) {
  wire::Series a = Row(kOutputRoundingBias, {0}, {3}, {10}), b = Row(kOutputRoundingBias, {0}, {-1}, {30});
  a.moments = {1, 2, 3, 4};
  b.moments = {10, 20, 30, 40};
  const auto merged = Only(MergeFrames({Of(0, {a}), Of(1, {b})}, true));
  EXPECT_EQ(merged.values[0], 2);
  EXPECT_EQ(merged.weights[0], 40);
  EXPECT_EQ(merged.moments, (std::vector<float>{11, 22, 33, 44}));
  b.moments.clear();
  EXPECT_TRUE(Only(MergeFrames({Of(0, {a}), Of(1, {b})}, true)).moments.empty());
}

TEST(MergeFrames, LossIsWeightedByTokensAndTokensAddUp) {
  const wire::Frame merged = MergeFrames({Of(0, {Scalar(kLoss, 2, {100}), Scalar(kTokens, 100)}),
                                          Of(1, {Scalar(kLoss, 4, {300}), Scalar(kTokens, 300)}),
                                          Of(2, {Scalar(kLoss, kNan, {0}), Scalar(kTokens, 0)})},
                                         true);
  EXPECT_EQ(merged.Find(kLoss)->values[0], 3.5f);
  EXPECT_EQ(merged.Find(kTokens)->values[0], 400);
  EXPECT_EQ(merged.seq, 0u);
}

TEST(MergeFrames, OneNanLossOfARankIsSeen) {
  const wire::Frame merged =
      MergeFrames({Of(0, {Scalar(kLoss, 2, {100})}), Of(1, {Scalar(kLoss, kNan, {100})})}, true);
  EXPECT_TRUE(std::isnan(merged.Find(kLoss)->values[0]));
}

TEST(MergeFrames, DisjointHeadsFormOneRowAndMissingHeadsCountNowhere) {
  wire::Series left = Row(kWqSigma1, {0, 1}, {1, 2}), right = Row(kWqSigma1, {2, 3}, {3, 0});
  right.present = {1, 0};
  const auto merged = Only(MergeFrames({Of(1, {right}), Of(0, {left})}, true));
  EXPECT_EQ(merged.heads, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(merged.present, (std::vector<uint8_t>{1, 1, 1, 0}));
  EXPECT_EQ(merged.values, (std::vector<float>{1, 2, 3, 0}));
  wire::Series other = Row(kWqSigma1, {3}, {8});
  EXPECT_EQ(Only(MergeFrames({Of(1, {right}), Of(0, {other})}, true)).values, (std::vector<float>{3, 8}));
}

TEST(MergeFrames, ReplicatedIsTheLowestRanksAndNanWins) {
  EXPECT_EQ(MergeFrames({Of(1, {Scalar(kGradNorm, 2)}), Of(0, {Scalar(kGradNorm, 1)})}, true)
                .Find(kGradNorm)
                ->values[0],
            1);
  EXPECT_TRUE(std::isnan(MergeFrames({Of(1, {Scalar(kGradNorm, kNan)}), Of(0, {Scalar(kGradNorm, 1)})}, true)
                             .Find(kGradNorm)
                             ->values[0]));
}

TEST(MergeFrames, ReplicasOfAProjectionAreNotAddedUp) {
  const auto merged = Only(MergeFrames({Of(0, {Row(kUpdateProjection1, {0}, {0.5f}, {10})}),
                                        Of(1, {Row(kUpdateProjection1, {0}, {0.5f}, {10})})},
                                       true));
  EXPECT_EQ(merged.values[0], 0.5f);
  EXPECT_EQ(merged.weights[0], 10);
}

wire::Series Partial(std::vector<float> steps, uint64_t hash) {
  wire::Series series = Row(kUpdateProjection2, {4}, std::move(steps));
  series.values_per_head = static_cast<uint32_t>(series.values.size());
  series.flags = wire::kPartial | wire::kLowResolution;
  series.direction_hash = {hash};
  return series;
}

TEST(MergeFrames, ShardsAreAddedByStepBeforeSignsAreTaken) {
  // Each rank alone looks coherent the other way; together the steps are +1 +1 -1 +1.
  const wire::Frame merged =
      MergeFrames({Of(0, {Partial({3, -1, -3, 0}, 9)}), Of(1, {Partial({-2, 2, 2, 1}, 9)})}, true);
  ASSERT_EQ(merged.series.size(), 3u);
  const wire::Series* projection = merged.Find(kUpdateProjection2, 3);
  EXPECT_EQ(projection->values, (std::vector<float>{2}));
  EXPECT_EQ(projection->weights, (std::vector<float>{4}));
  EXPECT_EQ(projection->values_per_head, 1u);
  EXPECT_EQ(projection->flags, wire::kLowResolution);
  const wire::Series* signs = merged.Find(kUpdateSignMean2, 3);
  EXPECT_EQ(signs->values, (std::vector<float>{2}));
  EXPECT_EQ(signs->weights, (std::vector<float>{4}));
  const wire::Series* drift = merged.Find(kUpdateDriftRatio2, 3);
  EXPECT_EQ(drift->values, (std::vector<float>{2}));
  EXPECT_EQ(drift->weights, (std::vector<float>{4}));
}

TEST(MergeFrames, AWindowWithoutAllItsShardsIsMissing) {
  const auto is_missing = [](const wire::Frame& frame) {
    for (const uint16_t signal : {kUpdateProjection2, kUpdateSignMean2, kUpdateDriftRatio2}) {
      const wire::Series* series = frame.Find(signal, 3);
      if (series == nullptr || series->has(0)) return false;
    }
    return true;
  };
  const auto merge = [](const wire::Series& a, const wire::Series& b, bool complete) {
    return MergeFrames({Of(0, {a}), Of(1, {b})}, complete);
  };
  EXPECT_FALSE(is_missing(merge(Partial({1, 1}, 9), Partial({1, 1}, 9), true)));
  EXPECT_TRUE(is_missing(merge(Partial({1, 1}, 9), Partial({1, 1}, 8), true))) << "directions differ";
  EXPECT_TRUE(is_missing(merge(Partial({1, 1}, 9), Partial({1, 1, 1}, 9), true))) << "steps differ";
  EXPECT_TRUE(is_missing(merge(Partial({1, 1}, 9), Partial({1, 1}, 9), false))) << "a rank is missing";
  wire::Series offsets = Partial({1, 1}, 9), absent = Partial({0, 0}, 9);
  offsets.step_offsets = {2, 0};
  absent.present = {0};
  EXPECT_TRUE(is_missing(merge(Partial({1, 1}, 9), offsets, true))) << "step numbers differ";
  EXPECT_TRUE(is_missing(merge(Partial({1, 1}, 9), absent, true))) << "a shard says missing";
}

// HSDP: two groups of two shards each, and a rank that holds none of the layer.
TEST(MergeFrames, OfReplicaGroupsEachShardCountsOnce) {
  const auto shard = [](std::vector<float> steps, uint32_t index) {
    wire::Series series = Partial(std::move(steps), 9);
    series.shard = index;
    series.shards = 2;
    return series;
  };
  const auto value = [](std::vector<RankFrame> frames, bool complete) -> std::optional<float> {
    const wire::Frame merged = MergeFrames(std::move(frames), complete);
    const wire::Series* projection = merged.Find(kUpdateProjection2, 3);
    if (projection == nullptr || !projection->has(0)) return std::nullopt;
    return projection->values[0];
  };
  EXPECT_EQ(value({Of(0, {shard({1, 1}, 0)}), Of(1, {shard({2, 2}, 1)}), Of(2, {shard({1, 1}, 0)}),
                   Of(3, {shard({2, 2}, 1)}), Of(4, {})},
                  true),
            6.0f);
  EXPECT_EQ(value({Of(0, {shard({1, 1}, 0)}), Of(3, {shard({2, 2}, 1)})}, false), 6.0f)
      << "whole without the others";
  EXPECT_EQ(value({Of(0, {shard({1, 1}, 0)}), Of(1, {}), Of(2, {shard({1, 1}, 0)}), Of(3, {})}, true),
            std::nullopt)
      << "shard 1 is missing, though every rank has come";
}

TEST(MergeFrames, ZeroUpdatesHaveNoSignMean) {
  const wire::Frame merged = MergeFrames({Of(0, {Partial({1, -1}, 9)}), Of(1, {Partial({-1, 1}, 9)})}, true);
  EXPECT_TRUE(merged.Find(kUpdateProjection2, 3)->has(0));
  EXPECT_FALSE(merged.Find(kUpdateSignMean2, 3)->has(0));
}

TEST(MergeFrames, ASkippedStepAndTurnsOfOneRankAreKept) {
  wire::Series turned = Row(kUpdateProjection1, {0}, {1});
  turned.rotated = {1};
  RankFrame b = Of(1, {turned});
  b.frame.skipped = true;
  const wire::Frame merged = MergeFrames({Of(0, {Row(kUpdateProjection1, {0}, {1})}), b}, true);
  EXPECT_TRUE(merged.skipped);
  EXPECT_EQ(merged.series.at(0).rotated, (std::vector<uint8_t>{1}));
}

}  // namespace
}  // namespace foreshock::merge
