#include "foreshock/server/auth/call_slots.h"

#include <gtest/gtest.h>

namespace foreshock::auth {
namespace {

TEST(CallSlots, OneCallerCannotTakeWhatIsLeftForOthers) {
  CallSlots slots("streams", 3, "max_streams", 2, "max_streams_per_identity");
  auto first = slots.Take("token a");
  auto second = slots.Take("token a");
  ASSERT_TRUE(first.ok() && second.ok());
  const auto third = slots.Take("token a");
  EXPECT_EQ(third.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(third.status().message(), "streams: token a has 2 open, at most 2 (max_streams_per_identity)");
  const auto other = slots.Take("token b");
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(slots.Take("token c").status().message(),
            "streams: 3 are open, at most 3 at a time (max_streams)");
  EXPECT_EQ(slots.refused(), 2u);
  first->reset();
  EXPECT_TRUE(slots.Take("token a").ok());
  EXPECT_EQ(slots.open(), 2u);
}

}  // namespace
}  // namespace foreshock::auth
