#include "foreshock/server/auth/listen.h"

#include <gtest/gtest.h>

namespace foreshock::auth {
namespace {

TEST(Listen, AddressesAreParsed) {
  EXPECT_EQ(ParseHostPort("grpc", "127.0.0.1:7071")->port, 7071);
  EXPECT_EQ(ParseHostPort("grpc", "[::1]:0")->host, "::1");
  for (const char* bad :
       {"", ":1", "host", "host:", "host:x", "host:65536", "host:-1", "::1:7071", "[]:1", "h:1 "}) {
    const auto parsed = ParseHostPort("grpc", bad);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
    EXPECT_TRUE(parsed.status().message().starts_with("grpc: '")) << parsed.status().message();
  }
}

TEST(Listen, LoopbackNeedsNothing) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"}) {
    EXPECT_TRUE(CheckListen("grpc", {host, 1}, {}).ok()) << host;
  }
}

TEST(Listen, BeyondLoopbackNeedsBothProtections) {
  for (const char* host :
       {"0.0.0.0", "::", "10.0.0.1", "example.org", "127.evil.example", "127.0.0.1.example"}) {
    EXPECT_EQ(CheckListen("grpc", {host, 1}, {}).code(), Code::kFailedPrecondition) << host;
    EXPECT_FALSE(CheckListen("grpc", {host, 1}, {.tls = true, .tokens = false}).ok());
    EXPECT_FALSE(CheckListen("grpc", {host, 1}, {.tls = false, .tokens = true}).ok());
    EXPECT_TRUE(CheckListen("grpc", {host, 1}, {.tls = true, .tokens = true}).ok());
  }
}

}  // namespace
}  // namespace foreshock::auth
