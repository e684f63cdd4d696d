#include "foreshock/server/auth/gate.h"

#include <gtest/gtest.h>

#include <fstream>

#include "foreshock/server/auth/tokens_file.h"
#include "foreshock/tests/history.h"

namespace foreshock::auth {
namespace {

Credentials Bearer(const std::string& token) { return {.token = token, .address = "ipv4:10.0.0.3:999"}; }

class GateTest : public testing::Test {
 protected:
  std::string Make(const std::string& name, const std::string& scopes, const std::string& run,
                   int64_t expires_unix_s = 0) {
    Token token;
    token.name = name;
    token.scopes = *ParseScopes(scopes);
    token.runs = {run};
    token.expires_unix_s = expires_unix_s;
    const auto made = CreateToken(path_, token, clock_);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? made->secret : "";
  }

  tests::TempFolder folder_;
  const std::string path_ = folder_.path() + "/tokens";
  ManualClock clock_;
};

TEST_F(GateTest, WithoutTokensEverybodyMay) {
  const Gate gate;
  const auto caller = gate.Identify({.certificate = {}, .address = "ipv6:[::1]:4444"});
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ(caller->name(), "address ::1");
  for (const Scope scope : kAllScopes) {
    EXPECT_TRUE(caller->May(scope, "run").ok());
    EXPECT_TRUE(caller->MayForAllRuns(scope).ok());
  }
}

TEST_F(GateTest, AControlTokenAloneGuardsActing) {
  const Gate gate({.control_token = "0123456789abcdef"});
  EXPECT_TRUE(gate.Admit({}, Scope::kRead, "r").ok());
  EXPECT_TRUE(gate.Admit(Bearer("something else"), Scope::kWrite, "r").ok());
  EXPECT_EQ(gate.Admit({}, Scope::kControl, "r").status().code(), Code::kPermissionDenied);
  EXPECT_EQ(gate.Admit(Bearer("0123456789abcdeF"), Scope::kControl, "r").status().code(),
            Code::kPermissionDenied);
  EXPECT_TRUE(gate.Admit(Bearer("0123456789abcdef"), Scope::kControl, "r").ok());
  EXPECT_EQ(gate.stats().not_allowed, 2u);
}

TEST_F(GateTest, ScopesAndPrefixesDecide) {
  const std::string agent = Make("agent", "write", "team-a/");
  const std::string reader = Make("reader", "read", "");
  Gate gate({.tokens_file = path_, .control_token = "0123456789abcdef", .clock = &clock_});
  ASSERT_TRUE(gate.Reload().ok());
  EXPECT_TRUE(gate.Admit(Bearer(agent), Scope::kWrite, "team-a/gpt").ok());
  EXPECT_EQ(gate.Admit(Bearer(agent), Scope::kWrite, "team-b/gpt").status().message(),
            "authorization: token agent is for runs that begin with team-a/, not for 'team-b/gpt'");
  EXPECT_EQ(gate.Admit(Bearer(agent), Scope::kRead, "team-a/gpt").status().message(),
            "authorization: token agent lacks the scope read; it has write");
  EXPECT_TRUE(gate.Identify(Bearer(reader))->MayForAllRuns(Scope::kRead).ok());
  EXPECT_FALSE(gate.Identify(Bearer(agent))->MayForAllRuns(Scope::kWrite).ok());
  EXPECT_TRUE(gate.Admit(Bearer("0123456789abcdef"), Scope::kControl, "x").ok());
  EXPECT_FALSE(gate.Admit(Bearer("0123456789abcdef"), Scope::kWrite, "x").ok());
  EXPECT_EQ(gate.Identify({}).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(gate.Identify(Bearer(agent + "x")).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(gate.stats().no_token, 1u);
  EXPECT_EQ(gate.stats().unknown_token, 1u);
}

TEST_F(GateTest, ARefusalNeverRepeatsTheSecret) {
  const std::string agent = Make("agent", "write", "team-a/");
  Gate gate({.tokens_file = path_, .clock = &clock_});
  ASSERT_TRUE(gate.Reload().ok());
  EXPECT_EQ(gate.Identify(Bearer("fsk_wrong")).status().message().find("fsk_wrong"), std::string::npos);
  EXPECT_EQ(gate.Admit(Bearer(agent), Scope::kRead, "r").status().message().find(agent), std::string::npos);
  EXPECT_EQ(gate.Identify(Bearer(agent))->name(), "token agent");
}

TEST_F(GateTest, ExpiryAndRevocation) {
  const std::string secret = Make("short", "read", "", clock_.WallNanos() / 1'000'000'000 + 100);
  Gate gate({.tokens_file = path_, .clock = &clock_});
  ASSERT_TRUE(gate.Reload().ok());
  EXPECT_TRUE(gate.Identify(Bearer(secret)).ok());
  clock_.JumpWall(std::chrono::seconds(100));
  EXPECT_FALSE(gate.Identify(Bearer(secret)).ok());
  EXPECT_EQ(gate.stats().expired_token, 1u);
  clock_.JumpWall(std::chrono::seconds(-100));
  const uint64_t before = gate.generation();
  ASSERT_TRUE(RevokeToken(path_, "short").ok());
  EXPECT_TRUE(gate.Identify(Bearer(secret)).ok()) << "not before it is read again";
  ASSERT_TRUE(gate.Reload().ok());
  EXPECT_FALSE(gate.Identify(Bearer(secret)).ok());
  EXPECT_GT(gate.generation(), before);
}

TEST_F(GateTest, ABrokenFileLeavesTheOldTokens) {
  const std::string secret = Make("a", "read", "");
  Gate gate({.tokens_file = path_, .clock = &clock_});
  ASSERT_TRUE(gate.Reload().ok());
  std::ofstream(path_) << "nonsense\n";
  EXPECT_EQ(gate.Reload().code(), Code::kInvalidArgument);
  EXPECT_TRUE(gate.Identify(Bearer(secret)).ok());
  EXPECT_EQ(gate.stats().reload_failures, 1u);
}

}  // namespace
}  // namespace foreshock::auth
