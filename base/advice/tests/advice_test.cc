#include "foreshock/base/advice.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace foreshock {
namespace {

TEST(Advice, NamesTheUserWhereAccessIsDenied) {
  const std::string advice = AdviceFor(Status(Code::kPermissionDenied, "mkdir /data: Permission denied"));
  EXPECT_NE(advice.find("uid " + std::to_string(geteuid())), std::string::npos) << advice;
}

TEST(Advice, IsSilentWhereTheTextSaysItAll) {
  EXPECT_EQ(AdviceFor(OkStatus()), "");
  EXPECT_EQ(AdviceFor(Status(Code::kInvalidArgument, "port: 70000, at most 65535")), "");
}

}  // namespace
}  // namespace foreshock
