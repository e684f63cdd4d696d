#include "keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace foreshock::store {
namespace {

TEST(Keys, OrderOfBytesIsOrderOfSteps) {
  const std::vector<int64_t> steps = {
      std::numeric_limits<int64_t>::min(), -1'000'000'000, -1, 0, 1, 255, 256, 1'000'000'000,
      std::numeric_limits<int64_t>::max()};
  std::vector<std::string> keys;
  for (const int64_t step : steps) keys.push_back(FrameKey({1, 1, 0, 1}, step, 7));
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto parts = ParseFrameKey(keys[i]);
    ASSERT_TRUE(parts.has_value());
    EXPECT_EQ(parts->step, steps[i]);
    EXPECT_EQ(parts->seq, 7u);
    EXPECT_EQ(parts->source, (SourceId{1, 1, 0, 1}));
  }
}

TEST(Keys, TruncatedOrForeignKeysAreRefused) {
  const std::string key = FrameKey({1, 2, 3, 4}, 5, 6);
  for (size_t length = 0; length < key.size(); ++length) {
    EXPECT_FALSE(ParseFrameKey(std::string_view(key).substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(ParseFrameKey(key + "x").has_value());
  EXPECT_FALSE(ParseEventKey(key).has_value());
}

TEST(Keys, MetaNamesMayHoldAnything) {
  const std::string run("a\0/b\xFF", 5);
  const std::string key = MetaKey("alert", run, std::string("k\0", 2));
  const auto parts = ParseMetaKey(key);
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->run, run);
  EXPECT_EQ(parts->kind, "alert");
  EXPECT_EQ(parts->key, std::string_view("k\0", 2));
  // A run whose name begins like another's is not within its prefix.
  EXPECT_FALSE(MetaKey("alert", "run12", "k").starts_with(MetaRunPrefix("run1")));
}

TEST(Keys, PrefixEndIsAboveEveryKeyOfThePrefix) {
  EXPECT_EQ(PrefixEnd("ab"), "ac");
  EXPECT_EQ(PrefixEnd(std::string("a\xFF\xFF")), "b");
  EXPECT_EQ(PrefixEnd(std::string("\xFF")), "");
  EXPECT_LT(FrameKey({1, 1, kMerged, 0}, kMerged, 1), PrefixEnd(FramePrefix(1, 1, kMerged)));
}

}  // namespace
}  // namespace foreshock::store
