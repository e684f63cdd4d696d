#include <gtest/gtest.h>

#include "watch.h"

namespace foreshock::alert {
namespace {

TEST(RebuildRanges, AShortHistoryIsReadWhole) {
  const RebuildOptions options{.head_steps = 10, .tail_steps = 20, .blocks = 3, .block_steps = 4};
  const auto ranges = RebuildRanges(5, 5 + options.most_steps() - 1, options);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].from, 5);
  EXPECT_EQ(ranges[0].to, 5 + options.most_steps() - 1);
}

TEST(RebuildRanges, ALongOneInBoundsRisingAndWithItsEnds) {
  const RebuildOptions options{.head_steps = 10, .tail_steps = 20, .blocks = 3, .block_steps = 4};
  for (const int64_t known : {int64_t{47}, int64_t{48}, int64_t{60}, int64_t{1000}, int64_t{1} << 50}) {
    const auto ranges = RebuildRanges(5, known, options);
    int64_t steps = 0, last = 4;
    for (const StepRange& range : ranges) {
      EXPECT_GT(range.from, last) << known;
      EXPECT_GE(range.to, range.from) << known;
      last = range.to;
      steps += range.to - range.from + 1;
    }
    EXPECT_EQ(ranges.front().from, 5);
    EXPECT_GE(ranges.front().to, 14);
    EXPECT_EQ(last, known);
    EXPECT_LE(steps, options.most_steps() + 1) << known;
  }
}

}  // namespace
}  // namespace foreshock::alert
