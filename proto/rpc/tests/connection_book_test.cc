#include "connection_book.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <vector>

#include "sockets.h"

namespace foreshock::rpc {
namespace {

using std::chrono::seconds;

class ConnectionBookTest : public testing::Test {
 protected:
  // Connects from this address; the accepted end goes to the book.
  bool Come(ConnectionBook& book, const char* from) {
    clients_.push_back(test::Connect(port_, from));
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const int fd = ::accept(listener_.fd(), reinterpret_cast<sockaddr*>(&peer), &size);
    EXPECT_GE(fd, 0);
    accepted_.emplace_back(fd);
    return book.Enter(fd, peer, size, now_ += seconds(1)) == Room::kFree;
  }
  int ComeOften(ConnectionBook& book, const char* from, int times) {
    int taken = 0;
    for (int i = 0; i < times; ++i) taken += Come(book, from) ? 1 : 0;
    return taken;
  }

  test::Socket listener_ = test::Listen();
  const int port_ = test::PortOf(listener_);
  std::vector<test::Socket> clients_, accepted_;
  ConnectionBook::SteadyTime now_{};
};

TEST_F(ConnectionBookTest, OneHostLeavesRoomForOthers) {
  ConnectionBook book(32);
  EXPECT_EQ(ComeOften(book, "127.0.0.9", 60), 30)
      << "the last sixteenth is for those who hold less than that";
  EXPECT_TRUE(Come(book, "127.0.0.2"));
  EXPECT_TRUE(Come(book, "127.0.0.3"));
  EXPECT_FALSE(Come(book, "127.0.0.9"));
}

TEST_F(ConnectionBookTest, WhatHasEndedMakesRoom) {
  ConnectionBook book(32);
  ASSERT_EQ(ComeOften(book, "127.0.0.9", 40), 30);
  accepted_.clear();  // closed by whoever had them, without a word
  EXPECT_EQ(ComeOften(book, "127.0.0.9", 60), 30)
      << "numbers that were handed out anew are other connections";
  EXPECT_EQ(book.size(), 30u);
}

// Its number now belongs to something that is no connection, or to another one.
TEST_F(ConnectionBookTest, ANumberThatIsSomethingElseHasEnded) {
  ConnectionBook book(32);
  ASSERT_EQ(ComeOften(book, "127.0.0.9", 40), 30);
  const test::Socket other = test::Listen();
  for (const test::Socket& socket : accepted_) ASSERT_GE(::dup2(other.fd(), socket.fd()), 0);
  EXPECT_TRUE(Come(book, "127.0.0.9"));
  EXPECT_EQ(book.size(), 1u);
}

TEST_F(ConnectionBookTest, LooksAgainOnlyAfterAWhile) {
  ConnectionBook book(32);
  ASSERT_EQ(ComeOften(book, "127.0.0.9", 31), 30);
  const test::Socket other = test::Listen();
  for (const test::Socket& socket : accepted_) ASSERT_GE(::dup2(other.fd(), socket.fd()), 0);
  now_ -= seconds(1);  // the next one comes at the time of the last look
  EXPECT_FALSE(Come(book, "127.0.0.9"));
  EXPECT_TRUE(Come(book, "127.0.0.9"));
}

TEST(HostOf, IsAnAddressOrANetworkOfIpv6) {
  const auto v4 = [](const char* text) {
    sockaddr_storage out{};
    auto& address = reinterpret_cast<sockaddr_in&>(out);
    address.sin_family = AF_INET;
    EXPECT_EQ(::inet_pton(AF_INET, text, &address.sin_addr), 1);
    return out;
  };
  const auto v6 = [](const char* text) {
    sockaddr_storage out{};
    auto& address = reinterpret_cast<sockaddr_in6&>(out);
    address.sin6_family = AF_INET6;
    EXPECT_EQ(::inet_pton(AF_INET6, text, &address.sin6_addr), 1);
    return out;
  };
  EXPECT_NE(HostOf(v4("10.0.0.1")), HostOf(v4("10.0.0.2")));
  EXPECT_EQ(HostOf(v4("10.0.0.1")), HostOf(v6("::ffff:10.0.0.1")));
  EXPECT_EQ(HostOf(v6("2001:db8::1")), HostOf(v6("2001:db8::2:1")));
  EXPECT_NE(HostOf(v6("2001:db8::1")), HostOf(v6("2001:db8:0:1::1")));
  EXPECT_EQ(HostText(v4("10.0.0.1")), "10.0.0.1");
  EXPECT_EQ(HostText(v6("::ffff:10.0.0.1")), "10.0.0.1");
  EXPECT_EQ(HostText(v6("2001:db8:0:1::5")), "2001:db8:0:1::/64");
  EXPECT_EQ(HostText({}), "?");
}

}  // namespace
}  // namespace foreshock::rpc
