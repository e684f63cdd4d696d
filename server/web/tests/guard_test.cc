#include "foreshock/server/web/guard.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "foreshock/server/auth/tokens_file.h"
#include "foreshock/tests/history.h"

namespace foreshock::web {
namespace {

class GuardTest : public testing::Test {
 protected:
  GuardTest() : gate_({.tokens_file = folder_.path() + "/tokens"}) {
    reader_ = Make("reader", "read", "team-a/");
    all_ = Make("all", "read,control", "");
    writer_ = Make("writer", "write", "");
    EXPECT_TRUE(gate_.Reload().ok());
    AddGuard(&gate_, {}, &routes_);
    const auto yes = [](const http::Request&) { return http::Response{200, "text/plain", "yes"}; };
    for (const char* pattern : {"/", "/ui/{file}", "/healthz", "/metrics", "/report", "/api/v1/status",
                                "/api/v1/runs/{run}/series", "/api/v1/something/new"}) {
      routes_.Get(pattern, yes);
    }
    routes_.Post("/api/v1/runs/{run}/actions", yes);
    routes_.Post("/api/v1/something/new", yes);
    routes_.Get("/api/v1/runs", [](const http::Request& request) {
      std::string seen;
      for (const char* run : {"team-a/x", "team-b/y"}) seen += request.sees(run) ? run : "";
      return http::Response{200, "text/plain", seen};
    });
  }

  std::string Make(const std::string& name, const std::string& scopes, const std::string& run) {
    auth::Token token;
    token.name = name;
    token.scopes = *auth::ParseScopes(scopes);
    token.runs = {run};
    const auto made = auth::CreateToken(folder_.path() + "/tokens", token, SystemClock::Instance());
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? made->secret : "";
  }

  http::Response Ask(const std::string& method, const std::string& target, const std::string& token = "") {
    http::Request request;
    request.method = method;
    request.target = target;
    if (!token.empty()) request.authorization = "Bearer " + token;
    return routes_.Dispatch(request);
  }

  tests::TempFolder folder_;
  auth::Gate gate_;
  http::Routes routes_;
  std::string reader_, all_, writer_;
};

TEST_F(GuardTest, ThePageAndHealthAreForAll) {
  for (const char* path : {"/", "/ui/app.js", "/healthz", "/api/v1/control"}) {
    EXPECT_EQ(Ask("GET", path).code, 200) << path;
  }
}

TEST_F(GuardTest, EverythingElseNeedsATokenThatIsKnown) {
  for (const char* path : {"/metrics", "/report?run=team-a/x", "/api/v1/status", "/api/v1/runs",
                           "/api/v1/runs/team-a%2Fx/series", "/api/v1/something/new"}) {
    const http::Response none = Ask("GET", path);
    EXPECT_EQ(none.code, 401) << path;
    ASSERT_EQ(none.headers.size(), 1u);
    EXPECT_EQ(none.headers[0].first, "WWW-Authenticate");
    EXPECT_EQ(Ask("GET", path, "fsk_guess").code, 401) << path;
    EXPECT_EQ(Ask("GET", path, writer_).code, 403) << path;
    EXPECT_EQ(Ask("GET", path, all_).code, 200) << path;
  }
}

TEST_F(GuardTest, APrefixOpensItsRunsAlone) {
  EXPECT_EQ(Ask("GET", "/api/v1/runs/team-a%2Fx/series", reader_).code, 200);
  EXPECT_EQ(Ask("GET", "/api/v1/runs/team-b%2Fx/series", reader_).code, 403);
  EXPECT_EQ(Ask("GET", "/report?run=team-a/x&run=team-a/y", reader_).code, 200);
  EXPECT_EQ(Ask("GET", "/report?run=team-a/x&run=team-b/y", reader_).code, 403);
  EXPECT_EQ(Ask("GET", "/report?run=team-a/x,team-b/y", reader_).code, 403);
  EXPECT_EQ(Ask("GET", "/report", reader_).code, 403);
  EXPECT_EQ(Ask("GET", "/metrics", reader_).code, 403) << "it shows all runs";
  EXPECT_EQ(Ask("GET", "/api/v1/something/new", reader_).code, 403) << "what names no run concerns all";
  EXPECT_EQ(Ask("GET", "/api/v1/status", reader_).code, 200);
  EXPECT_EQ(Ask("GET", "/api/v1/runs", reader_).body, "team-a/x");
  EXPECT_EQ(Ask("GET", "/api/v1/runs", all_).body, "team-a/xteam-b/y");
}

TEST_F(GuardTest, ActingNeedsControl) {
  EXPECT_EQ(Ask("POST", "/api/v1/runs/team-a%2Fx/actions").code, 401);
  EXPECT_EQ(Ask("POST", "/api/v1/runs/team-a%2Fx/actions", reader_).code, 403);
  EXPECT_EQ(Ask("POST", "/api/v1/runs/team-a%2Fx/actions", all_).code, 200);
  EXPECT_EQ(Ask("POST", "/api/v1/something/new", reader_).code, 403);
  const auto given = [&](const std::string& token) {
    return nlohmann::json::parse(Ask("GET", "/api/v1/control", token).body)["token_given"].get<bool>();
  };
  EXPECT_TRUE(given(all_));
  EXPECT_FALSE(given(reader_));
  EXPECT_FALSE(given(""));
}

// A server without tokens, and a browser on its machine.
TEST(GuardWithoutTokens, AStrangersPageGetsNothing) {
  const auth::Gate gate;
  http::Routes routes;
  AddGuard(&gate, {"foreshock.example"}, &routes);
  const auto yes = [](const http::Request&) { return http::Response{200, "text/plain", "yes"}; };
  routes.Get("/api/v1/runs", yes);
  routes.Post("/api/v1/runs/{run}/actions", yes);
  const auto ask = [&](const std::string& method, const std::string& host, const std::string& origin = "") {
    http::Request request;
    request.method = method;
    request.target = method == "GET" ? "/api/v1/runs" : "/api/v1/runs/x/actions";
    request.host = host;
    request.origin = origin;
    return routes.Dispatch(request).code;
  };
  for (const char* host : {"", "localhost:7070", "127.0.0.1:7070", "[::1]:7070", "foreshock.example"}) {
    EXPECT_EQ(ask("GET", host), 200) << host;
    EXPECT_EQ(ask("POST", host), 200) << host;
  }
  EXPECT_EQ(ask("GET", "rebound.evil.example:7070"), 403);
  EXPECT_EQ(ask("GET", "127.0.0.1.evil.example"), 403);
  EXPECT_EQ(ask("POST", "localhost:7070", "http://localhost:7070"), 200);
  EXPECT_EQ(ask("POST", "127.0.0.1:7070", "https://foreshock.example"), 200)
      << "a proxy's name, from external_url";
  EXPECT_EQ(ask("POST", "localhost:7070", "https://evil.example"), 403);
  EXPECT_EQ(ask("POST", "localhost:7070", "null"), 403);
}

}  // namespace
}  // namespace foreshock::web
