#include "loss_track.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foreshock::detect {
namespace {

double Learning(int64_t t) {
  return 1.2 + 4 * std::exp(-static_cast<double>(t) / 200) + 0.02 * ((t * 7) % 5 - 2);
}

TEST(LossTrack, FiveBadBatchesNeverReachTheLevel) {
  LossTrack track;
  for (int64_t t = 0; t < 2000; t += 20) {
    const bool bad = t >= 1200 && t < 1280;  // 4 of 9 blocks
    track.Push(t, bad ? 9.0 : Learning(t));
    EXPECT_FALSE(track.above()) << t;
  }
  EXPECT_NEAR(track.level(), 1.2, 0.1);
}

TEST(LossTrack, BlocksGatherTenStepsOfDenseFrames) {
  LossTrack track;
  int closed = 0;
  for (int64_t t = 0; t < 100; ++t) closed += track.Push(t, 2.0);
  EXPECT_EQ(closed, 10);
  LossTrack sparse;
  closed = 0;
  for (int64_t t = 0; t < 1000; t += 50) closed += sparse.Push(t, 2.0);
  EXPECT_GE(closed, 19);
}

TEST(LossTrack, RiseIsAboveAndRestartForgetsIt) {
  LossTrack track;
  for (int64_t t = 0; t < 2000; t += 20) track.Push(t, Learning(t));
  for (int64_t t = 2000; t < 2400; t += 20) track.Push(t, 3.0);
  EXPECT_TRUE(track.above());
  track.Restart();
  for (int64_t t = 2400; t < 2800; t += 20) track.Push(t, 3.0);
  EXPECT_FALSE(track.above());
  EXPECT_EQ(track.best(), 3.0);
}

TEST(LossTrack, DivergenceDoesNotBecomeNoise) {
  LossTrack track;
  for (int64_t t = 0; t < 2000; t += 20) track.Push(t, Learning(t));
  const double noise = track.noise();
  for (int64_t t = 2000; t < 6000; t += 20) track.Push(t, t % 40 == 0 ? 3.0 : 6.0);
  EXPECT_LT(track.noise(), 3 * noise + 0.05);
  EXPECT_TRUE(track.above());
}

}  // namespace
}  // namespace foreshock::detect
