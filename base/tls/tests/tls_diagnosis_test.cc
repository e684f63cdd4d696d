#include "foreshock/base/tls_diagnosis.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace foreshock {
namespace {

// Accepts what comes and resets it before a word, as a server does that has no room.
class Full {
 public:
  Full() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof own;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&own), size), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(own.sin_port));
    thread_ = std::thread([this] {
      for (int client = 0; (client = ::accept(fd_, nullptr, nullptr)) >= 0; ::close(client)) {
        const linger at_once{1, 0};
        ::setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      }
    });
  }
  ~Full() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  const std::string& address() const { return address_; }

 private:
  const int fd_;
  std::string address_;
  std::thread thread_;
};

TEST(TlsDiagnosis, AServerThatHangsUpBeforeAWordHasNoRoom) {
  const Full full;
  for (const bool tls : {false, true}) {
    TlsTarget target;
    target.address = full.address();
    target.tls = tls;
    for (int i = 0; i < 20; ++i) {
      const Status why = DiagnoseConnection(target);
      ASSERT_EQ(why.code(), Code::kResourceExhausted) << why.ToString();
      EXPECT_NE(why.message().find("max_connections"), std::string::npos) << why.ToString();
    }
  }
}

TEST(TlsDiagnosis, NobodyThereIsNoLackOfRoom) {
  TlsTarget target;
  target.address = Full().address();  // closed again
  EXPECT_EQ(DiagnoseConnection(target).code(), Code::kUnavailable);
}

}  // namespace
}  // namespace foreshock
