#include "foreshock/server/http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "foreshock/server/http/client.h"

namespace foreshock::http {
namespace {

Routes Echo() {
  Routes routes;
  routes.Get("/hello/{name}", [](const Request& r) {
    return Response{200, "text/plain", "hello " + r.Path("name")};
  });
  routes.Post("/echo", [](const Request& r) {
    return Response{202, "text/plain", r.authorization + "|" + r.body};
  });
  return routes;
}

std::string Url(const Server& server, const std::string& path) {
  return "http://127.0.0.1:" + std::to_string(server.port()) + path;
}

TEST(Server, AnswersOverAFreePort) {
  auto server = Server::Start({}, Echo());
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  ASSERT_GT((*server)->port(), 0);
  const auto got = Get(Url(**server, "/hello/a%2Fb"));
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(got->code, 200);
  EXPECT_EQ(got->body, "hello a/b");
  ClientOptions options;
  options.headers["Authorization"] = "Bearer x";
  const auto posted = Post(Url(**server, "/echo"), "body", "text/plain", options);
  ASSERT_TRUE(posted.ok());
  EXPECT_EQ(posted->code, 202);
  EXPECT_EQ(posted->body, "Bearer x|body");
  EXPECT_EQ(Get(Url(**server, "/nothing"))->code, 404);
}

TEST(Server, ABodyOverTheLimitIsRefused) {
  ServerOptions options;
  options.max_body_bytes = 100;
  auto server = Server::Start(options, Echo());
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(Post(Url(**server, "/echo"), std::string(1000, 'x'), "text/plain")->code, 413);
}

TEST(Server, APortThatIsTakenIsAnError) {
  auto first = Server::Start({}, Echo());
  ASSERT_TRUE(first.ok());
  ServerOptions options;
  options.port = (*first)->port();
  const auto second = Server::Start(options, Echo());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  options.port = 70000;
  EXPECT_EQ(Server::Start(options, Echo()).status().code(), Code::kInvalidArgument);
}

TEST(Server, ManyAtOnceThenStop) {
  auto server = Server::Start({}, Echo());
  ASSERT_TRUE(server.ok());
  std::atomic<int> good{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      for (int j = 0; j < 20; ++j) {
        ClientOptions patient;
        patient.connect_timeout = patient.read_timeout = std::chrono::seconds(60);
        const auto got = Get(Url(**server, "/hello/" + std::to_string(i)), patient);
        if (got.ok() && got->body == "hello " + std::to_string(i)) ++good;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 8 * 20);
  (*server)->Stop();
  (*server)->Stop();
  EXPECT_EQ(Get(Url(**server, "/hello/x")).status().code(), Code::kUnavailable);
}

TEST(Client, RefusesWhatIsNoUrl) {
  for (const char* bad : {"", "127.0.0.1:80", "ftp://x", "http://", "http:///path"}) {
    EXPECT_EQ(Get(bad).status().code(), Code::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace foreshock::http
