// Clients that hold connections without using them: cut off, and others are served meanwhile.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <vector>

#include "foreshock/base/logging.h"
#include "foreshock/server/http/client.h"
#include "foreshock/server/http/server.h"

namespace foreshock::http {
namespace {

// A connection from an address of its own: all of 127.0.0.0/8 is this machine.
class RawClient {
 public:
  RawClient(int port, const char* from) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &address.sin_addr);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    address.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~RawClient() { ::close(fd_); }
  RawClient(const RawClient&) = delete;

  void Send(const std::string& text) { (void)::send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  // Blocks until the server hangs up.
  bool WasCutOff() {
    char byte;
    ssize_t n;
    do {
      pollfd poll{fd_, POLLIN, 0};
      if (::poll(&poll, 1, 60'000) <= 0) return false;
      n = ::recv(fd_, &byte, 1, 0);
    } while (n > 0);
    return true;
  }

 private:
  const int fd_;
};

Routes Large() {
  Routes routes;
  routes.Get("/large", [](const Request&) {
    return Response{200, "text/plain", std::string(64 << 20, 'x')};
  });
  routes.Get("/small", [](const Request&) { return Response{200, "text/plain", "x"}; });
  return routes;
}

TEST(HostileHttp, OneAddressCannotTakeAllThreads) {
  ServerOptions options;
  options.threads = 4;
  options.max_connections_per_address = 2;
  auto server = Server::Start(options, Large());
  ASSERT_TRUE(server.ok());
  std::mutex mutex;
  std::vector<std::string> lines;
  SetLogSink([&](LogLevel, std::string_view line) {
    std::lock_guard lock(mutex);
    if (line.find("refused") != std::string_view::npos) lines.emplace_back(line);
  });
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(std::make_unique<RawClient>((*server)->port(), "127.0.0.2"));
    idle.back()->Send("GET /sm");  // and never the rest
  }
  const auto got = Get("http://127.0.0.1:" + std::to_string((*server)->port()) + "/small");
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(got->body, "x");
  EXPECT_GE((*server)->stats().refused, 1u);
  (*server)->Stop();
  SetLogSink({});
  ASSERT_EQ(lines.size(), 1u) << "not one for each";
  EXPECT_NE(lines[0].find("127.0.0.2"), std::string::npos) << lines[0];
}

TEST(HostileHttp, ARequestThatNeverEndsAndAnAnswerThatNobodyReadsAreCutOff) {
  ServerOptions options;
  options.request_timeout = options.answer_timeout = std::chrono::milliseconds(300);
  auto server = Server::Start(options, Large());
  ASSERT_TRUE(server.ok());
  RawClient half((*server)->port(), "127.0.0.2");
  half.Send("GET /small HTTP/1.1\r\nX-Endless: ");
  EXPECT_TRUE(half.WasCutOff());
  RawClient deaf((*server)->port(), "127.0.0.3");
  deaf.Send("GET /large HTTP/1.1\r\n\r\n");
  (*server)->Stop();  // returns: no thread hangs in either
}

}  // namespace
}  // namespace foreshock::http
