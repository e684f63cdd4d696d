#include "foreshock/base/percent.h"

#include <gtest/gtest.h>

namespace foreshock {
namespace {

TEST(PercentEncode, KeepsWhatIsUnreservedOrNamed) {
  EXPECT_EQ(PercentEncode("AZaz09-_.~"), "AZaz09-_.~");
  EXPECT_EQ(PercentEncode("team/a b%\xC3\xA4\n"), "team%2Fa%20b%25%C3%A4%0A");
  EXPECT_EQ(PercentEncode("team/a b", "/"), "team/a%20b");
  EXPECT_EQ(PercentEncode(std::string_view("\0", 1)), "%00");
}

}  // namespace
}  // namespace foreshock
