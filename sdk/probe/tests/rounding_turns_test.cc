#include "foreshock/sdk/rounding_turns.h"

#include <gtest/gtest.h>

#include <set>

namespace foreshock::sdk {
namespace {

std::set<size_t> Chosen(const RoundingTurns& turns, size_t layers) {
  std::set<size_t> chosen;
  for (size_t i = 0; i < layers; ++i) {
    if (turns.Has(i)) chosen.insert(i);
  }
  EXPECT_EQ(chosen.size(), turns.count());
  return chosen;
}

// Visits of each layer over `samples` of a model whose layers cost the same.
std::vector<int> Visits(size_t layers, double work, int samples, int64_t steps) {
  RoundingTurns turns(layers);
  turns.Next(0);
  std::vector<int> visits(layers);
  for (size_t i = 0; i < layers; ++i) turns.SetWork(i, work);
  for (int s = 0; s < samples; ++s) {
    turns.Next(steps);
    for (const size_t i : Chosen(turns, layers)) ++visits[i];
  }
  return visits;
}

TEST(RoundingTurnsTest, TheFirstSampleMeasuresAll) {
  RoundingTurns turns(3);
  turns.Next(0);
  EXPECT_EQ(Chosen(turns, 3), (std::set<size_t>{0, 1, 2}));
}

TEST(RoundingTurnsTest, SmallModelsMeasureEveryLayerAtEverySample) {
  EXPECT_EQ(Visits(4, 1e7, 10, 10), std::vector<int>(4, 10));
  EXPECT_EQ(Visits(4, 1e7, 10, 1), std::vector<int>(4, 10)) << "at every step too";
}

TEST(RoundingTurnsTest, LayersFollowEachOther) {
  RoundingTurns turns(7);
  turns.Next(0);
  for (size_t i = 0; i < 7; ++i) turns.SetWork(i, 2e8);
  const std::set<size_t> expected[] = {{0, 1}, {2, 3, 4}, {5, 6}, {0, 1, 2}};
  for (const auto& chosen : expected) {
    turns.Next(10);
    EXPECT_EQ(Chosen(turns, 7), chosen);
  }
}

TEST(RoundingTurnsTest, ALayerThatCostsMoreThanASampleEarnsWaitsForTheNext) {
  for (const int n : Visits(12, 8e8, 24, 10)) EXPECT_EQ(n, 1) << "every second sample, in turn";
}

TEST(RoundingTurnsTest, SamplingMoreOftenCostsNoMore) {
  int visits = 0;
  for (const int n : Visits(12, 8e8, 240, 1)) visits += n;
  EXPECT_GE(visits, 12);
  EXPECT_LE(visits, 15) << "240 steps earn 15 layers";
}

TEST(RoundingTurnsTest, LargeModelsSpendATwentiethOfTheirRows) {
  int visits = 0;
  for (const int n : Visits(40, 3e10, 20, 10)) visits += n;
  EXPECT_EQ(visits, 40) << "two layers of forty a sample";
  for (const int n : Visits(2, 3e10, 200, 10)) EXPECT_NEAR(n, 10, 1) << "a layer above what a sample earns";
}

TEST(RoundingTurnsTest, StepsThatGoBackEarnNothing) {
  RoundingTurns turns(1);
  turns.Next(0);
  turns.SetWork(0, 8e8);
  turns.Next(-1000);
  turns.Next(-1000);
  turns.Next(-1000);
  EXPECT_EQ(turns.count(), 0u);
  RoundingTurns none(0);
  none.Next(10);
  EXPECT_EQ(none.count(), 0u);
}

}  // namespace
}  // namespace foreshock::sdk
