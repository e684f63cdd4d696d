#include "foreshock/base/shares.h"

#include <gtest/gtest.h>

namespace foreshock {
namespace {

constexpr uint64_t kLimit = 1600;

TEST(Shares, UpToHalfEverybodyTakesWhatHeNeeds) {
  EXPECT_EQ(RoomFor(800, 0, 0, kLimit, 0), Room::kFree);
  EXPECT_EQ(RoomFor(100, 700, 700, kLimit, 4), Room::kFree);
}

TEST(Shares, AloneAllButTheLastSixteenth) {
  EXPECT_EQ(RoomFor(100, 1400, 1400, kLimit, 1), Room::kFree);
  EXPECT_EQ(RoomFor(101, 1400, 1400, kLimit, 1), Room::kFull);
}

TEST(Shares, BeyondHalfNoneTakesMoreThanItsShare) {
  EXPECT_EQ(RoomFor(1, 800, 900, kLimit, 2), Room::kShare);
  EXPECT_EQ(RoomFor(100, 100, 900, kLimit, 2), Room::kFree);
  EXPECT_EQ(RoomFor(500, 100, 900, kLimit, 4), Room::kShare) << "of four a fourth";
}

TEST(Shares, TheLastSixteenthIsForThoseThatHoldLittle) {
  EXPECT_EQ(RoomFor(50, 0, 1500, kLimit, 1), Room::kFree) << "a new one";
  EXPECT_EQ(RoomFor(50, 50, 1550, kLimit, 2), Room::kFree);
  EXPECT_EQ(RoomFor(1, 100, 1550, kLimit, 2), Room::kFull);
  EXPECT_EQ(RoomFor(51, 50, 1550, kLimit, 2), Room::kFull);
}

}  // namespace
}  // namespace foreshock
