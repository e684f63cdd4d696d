#include "foreshock/server/auth/tokens_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "foreshock/base/file.h"
#include "foreshock/tests/history.h"

namespace foreshock::auth {
namespace {

Token Wanted(const std::string& name, const std::string& scopes = "write",
             const std::string& run = "team-a/") {
  Token token;
  token.name = name;
  token.scopes = *ParseScopes(scopes);
  token.runs = {run};
  return token;
}

class TokensFileTest : public testing::Test {
 protected:
  std::string Text() const {
    std::ifstream in(path_);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  tests::TempFolder folder_;
  const std::string path_ = folder_.path() + "/tokens";
  ManualClock clock_;
};

TEST_F(TokensFileTest, WhatIsMadeIsReadAgainAndTheSecretIsNotKept) {
  const auto made = CreateToken(path_, Wanted("ci", "write,read"), clock_);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  EXPECT_EQ(made->secret.size(), kSecretPrefix.size() + 43);
  EXPECT_EQ(Text().find(made->secret), std::string::npos);
  EXPECT_EQ(Text().find(made->secret.substr(kSecretPrefix.size())), std::string::npos);
  ASSERT_TRUE(CreateToken(path_, Wanted("grafana", "read", ""), clock_).ok());
  const auto tokens = LoadTokens(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status().ToString();
  ASSERT_EQ(tokens->size(), 2u);
  EXPECT_EQ(tokens->at(0).name, "ci");
  EXPECT_TRUE(tokens->at(0).Has(Scope::kRead));
  EXPECT_FALSE(tokens->at(0).Has(Scope::kControl));
  EXPECT_TRUE(tokens->at(0).Covers("team-a/gpt"));
  EXPECT_FALSE(tokens->at(0).Covers("team-b/gpt"));
  EXPECT_TRUE(tokens->at(1).CoversAllRuns());
}

TEST_F(TokensFileTest, AChangeKeepsTheFilesMode) {
  const auto mode = [&] {
    struct stat info {};
    EXPECT_EQ(::stat(path_.c_str(), &info), 0);
    return info.st_mode & 07777;
  };
  ASSERT_TRUE(CreateToken(path_, Wanted("a"), clock_).ok());
  EXPECT_EQ(mode(), 0640u);
  ASSERT_EQ(::chmod(path_.c_str(), 0604), 0);
  ASSERT_TRUE(RevokeToken(path_, "a").ok());
  EXPECT_EQ(mode(), 0604u);
}

TEST_F(TokensFileTest, TwoSecretsDiffer) {
  const auto a = CreateToken(path_, Wanted("a"), clock_);
  const auto b = CreateToken(path_, Wanted("b"), clock_);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE(a->secret, b->secret);
}

TEST_F(TokensFileTest, ANameIsTakenOnceAndRevokedOnce) {
  ASSERT_TRUE(CreateToken(path_, Wanted("ci"), clock_).ok());
  EXPECT_EQ(CreateToken(path_, Wanted("ci"), clock_).status().code(), Code::kAlreadyExists);
  EXPECT_TRUE(RevokeToken(path_, "ci").ok());
  EXPECT_EQ(RevokeToken(path_, "ci").code(), Code::kNotFound);
  EXPECT_TRUE(LoadTokens(path_)->empty());
}

TEST_F(TokensFileTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(LoadTokens(path_).status().code(), Code::kNotFound);
  for (Token bad : {Wanted(""), Wanted("a b"), Wanted(std::string(65, 'x')),
                    Wanted("x", "write", std::string(201, 'r'))}) {
    EXPECT_EQ(CreateToken(path_, bad, clock_).status().code(), Code::kInvalidArgument) << bad.name;
  }
  Token past = Wanted("past");
  past.expires_unix_s = 1;
  EXPECT_EQ(CreateToken(path_, past, clock_).status().message(), "expires: lies in the past");
  EXPECT_EQ(ParseScopes("write,write").status().message(), "scopes: 'write' twice");
  EXPECT_EQ(ParseScopes("admin").status().message(), "scopes: 'admin', must be write, read or control");
  EXPECT_FALSE(ParseScopes("").ok());
}

TEST_F(TokensFileTest, AFileWithAnErrorIsRefusedWhole) {
  const std::string hash(64, 'a');
  const std::string good = R"({"name":"a","sha256":")" + hash + R"(","scopes":["read"],"runs":[""]})";
  const struct {
    std::string line, message;
  } cases[] = {
      {"nonsense", "not a JSON object"},
      {R"({"name":"b","sha256":"xyz","scopes":["read"],"runs":[""]})", "sha256: must be 64"},
      {R"({"name":"b","sha256":")" + std::string(64, 'b') + R"(","scopes":[],"runs":[""]})", "scopes: none"},
      {R"({"name":"b","sha256":")" + std::string(64, 'b') + R"(","scopes":["read"],"runs":[]})",
       "runs: 0 prefixes"},
      {R"({"name":"b","sha256":")" + std::string(64, 'b') +
           R"(","scopes":["read"],"runs":[""],"only_from":"x"})",
       "only_from: unknown"},
      {R"({"name":"a","sha256":")" + std::string(64, 'b') + R"(","scopes":["read"],"runs":[""]})",
       "name: 'a' twice"},
      {R"({"name":"b","sha256":")" + hash + R"(","scopes":["read"],"runs":[""]})", "sha256: the same"},
  };
  for (const auto& c : cases) {
    Write("# comment\n\n" + good + "\n" + c.line + "\n");
    const Status status = LoadTokens(path_).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << c.line;
    EXPECT_NE(status.message().find(path_ + ":4: " + c.message), std::string::npos) << status.message();
  }
  Write("# comment\n\n" + good + "\n");
  EXPECT_EQ(LoadTokens(path_)->size(), 1u);
}

}  // namespace
}  // namespace foreshock::auth
