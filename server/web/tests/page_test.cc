// The web page's files as a browser gets them, and who may act by HTTP.
#include "foreshock/server/web/page_routes.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "foreshock/server/web/control_routes.h"
#include "foreshock/server/web/guard.h"
#include "foreshock/tests/history.h"

namespace foreshock::web {
namespace {

http::Response Get(const http::Routes& routes, const std::string& target,
                   const std::string& authorization = "") {
  http::Request request;
  request.method = "GET";
  request.target = target;
  request.authorization = authorization;
  return routes.Dispatch(request);
}

http::Routes Page() {
  http::Routes routes;
  AddPageRoutes(&routes);
  return routes;
}

// What a text names by src, href or import.
std::set<std::string> Loaded(const std::string& text) {
  static const std::regex kPattern(R"re((?:src=|href=|from )["']([^"'#]+)["'])re");
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), kPattern), end; it != end; ++it)
    found.insert((*it)[1]);
  return found;
}

TEST(Page, EverythingThatItLoadsIsServedByItself) {
  const http::Routes routes = Page();
  const http::Response page = Get(routes, "/");
  EXPECT_EQ(page.code, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  std::set<std::string> open = Loaded(page.body), seen;
  EXPECT_TRUE(open.contains("/ui/app.js"));
  while (!open.empty()) {
    std::string path = *open.begin();
    open.erase(open.begin());
    if (path.starts_with("data:") || path == "/") continue;
    if (path.starts_with("./")) path = "/ui" + path.substr(1);
    if (!seen.insert(path).second) continue;
    const http::Response got = Get(routes, path);
    EXPECT_EQ(got.code, 200) << path;
    EXPECT_FALSE(got.body.empty()) << path;
    if (path.ends_with(".js") && path.find("dygraph") == std::string::npos) {
      for (const std::string& next : Loaded(got.body)) {
        if (next.starts_with("./")) open.insert(next);
      }
    }
  }
  EXPECT_GE(seen.size(), 11u) << "app.js and what it imports, styles, the charting library";
}

TEST(Page, OtherFilesAreNotThere) {
  const http::Routes routes = Page();
  for (const char* path :
       {"/ui/", "/ui/nothing.js", "/ui/..%2f..%2fetc%2fpasswd", "/ui/app.js/x", "/index.html"}) {
    EXPECT_EQ(Get(routes, path).code, 404) << path;
  }
}

// Where actions would leave the server.
class Nowhere final : public ingest::Outbox {
 public:
  void PutAction(const std::string&, const std::string&, const wire::Action&) override { ++actions; }
  void PutProposal(const std::string&, const std::string&, const wire::Action&) override {}
  void WithdrawAction(const std::string&, const std::string&, const std::string&) override {}
  void SetSampling(const std::string&, const std::string&, const wire::Sampling&) override { ++samplings; }
  size_t Connected(const std::string&, const std::string&) const override { return 0; }
  int actions = 0, samplings = 0;
};

class TokenTest : public testing::Test {
 protected:
  void Start(const std::string& token) {
    history_.Put(history_.Hello("run"), tests::Loss(2, 1));
    controls_ = *control::Controls::Start(
        {.store = &history_.store(), .outbox = &outgoing_, .clock = &history_.clock(), .seed = 1});
    gate_ = std::make_unique<auth::Gate>(auth::GateOptions{.control_token = token});
    AddGuard(gate_.get(), {}, &routes_);
    AddControlRoutes(controls_.get(), &routes_);
  }
  int Act(const std::string& authorization, const char* what = "actions",
          const char* body = R"({"kind":"stop"})") {
    http::Request request;
    request.method = "POST";
    request.target = std::string("/api/v1/runs/run/") + what;
    request.content_type = "application/json";
    request.body = body;
    request.authorization = authorization;
    return routes_.Dispatch(request).code;
  }
  nlohmann::json Control(const std::string& authorization) {
    return nlohmann::json::parse(Get(routes_, "/api/v1/control", authorization).body);
  }

  tests::History history_;
  Nowhere outgoing_;
  std::unique_ptr<control::Controls> controls_;
  std::unique_ptr<auth::Gate> gate_;
  http::Routes routes_;
};

TEST_F(TokenTest, WithATokenOnlyWhoCarriesItActs) {
  Start("sixteen-bytes-or-more");
  for (const char* wrong :
       {"", "Bearer ", "Bearer sixteen-bytes-or-mor", "Bearer sixteen-bytes-or-morE",
        "bearer sixteen-bytes-or-more", "sixteen-bytes-or-more", "Basic sixteen-bytes-or-more"}) {
    EXPECT_EQ(Act(wrong), 403) << wrong;
    EXPECT_EQ(Act(wrong, "sampling", R"({"sampling":{"row_stride":2}})"), 403) << wrong;
    EXPECT_EQ(Control(wrong),
              nlohmann::json::parse(R"({"token_configured":true,"token_given":false,"token_known":false})"))
        << wrong;
  }
  EXPECT_EQ(outgoing_.actions + outgoing_.samplings, 0);
  EXPECT_EQ(Act("Bearer sixteen-bytes-or-more"), 201);
  EXPECT_EQ(outgoing_.actions, 1);
  EXPECT_EQ(Control("Bearer sixteen-bytes-or-more"),
            nlohmann::json::parse(R"({"token_configured":true,"token_given":true,"token_known":true})"));
  EXPECT_EQ(Get(routes_, "/api/v1/runs/run/actions").code, 200) << "reading needs none";
}

TEST_F(TokenTest, WithoutATokenNothingCarriesIt) {
  Start("");
  EXPECT_EQ(Act(""), 201);
  EXPECT_EQ(Control("Bearer "),
            nlohmann::json::parse(R"({"token_configured":false,"token_given":false,"token_known":false})"));
}

}  // namespace
}  // namespace foreshock::web
