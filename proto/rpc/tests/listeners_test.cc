#include "listeners.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sockets.h"

namespace foreshock::rpc {
namespace {

// A name that stands for two addresses of this machine, as "localhost" does where there is IPv6.
class ListenersTest : public testing::Test {
 protected:
  ListenersTest() {
    for (size_t i = 0; i < 3; ++i) {
      list_[i].ai_family = AF_INET;
      list_[i].ai_addr = reinterpret_cast<sockaddr*>(&addresses_[i]);
      list_[i].ai_addrlen = sizeof addresses_[i];
      list_[i].ai_next = i < 2 ? &list_[i + 1] : nullptr;
    }
  }
  // Closes what was opened.
  static void Close(const Listeners& listeners) {
    for (const int fd : listeners.fds) ::close(fd);
  }
  sockaddr_in addresses_[3] = {test::Loopback("127.0.0.1", 0), test::Loopback("127.0.0.7", 0),
                               test::Loopback("127.0.0.1", 0)};  // the last as files of hosts may repeat it
  addrinfo list_[3]{};
};

TEST_F(ListenersTest, AllAddressesOfANameOnOnePort) {
  const auto listeners = ListenAtAll("both", list_, 0, 1000);
  ASSERT_TRUE(listeners.ok()) << listeners.status().ToString();
  EXPECT_EQ(listeners->fds.size(), 2u);
  for (const char* host : {"127.0.0.1", "127.0.0.7"}) {
    const test::Socket client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = test::Loopback(host, listeners->port);
    EXPECT_EQ(::connect(client.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0) << host;
  }
  Close(*listeners);
}

TEST_F(ListenersTest, ATakenAddressOfANameIsNamedAndNoneIsListenedOn) {
  const test::Socket other = test::Listen();  // 127.0.0.1
  std::swap(addresses_[0], addresses_[1]);
  const auto listeners = ListenAtAll("both", list_, test::PortOf(other), 1000);
  ASSERT_FALSE(listeners.ok());
  EXPECT_EQ(listeners.status().code(), Code::kUnavailable);
  const std::string& said = listeners.status().message();
  EXPECT_NE(said.find("both:" + std::to_string(test::PortOf(other))), std::string::npos) << said;
  EXPECT_NE(said.find("127.0.0.1"), std::string::npos) << said;
  const test::Socket client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in to = test::Loopback("127.0.0.7", test::PortOf(other));
  EXPECT_NE(::connect(client.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
}

TEST_F(ListenersTest, AddressesThatThisMachineDoesNotHaveAreLeftOut) {
  addresses_[1] = test::Loopback("192.0.2.1", 0);
  const auto listeners = ListenAtAll("both", list_, 0, 1000);
  ASSERT_TRUE(listeners.ok()) << listeners.status().ToString();
  EXPECT_EQ(listeners->fds.size(), 1u);
  Close(*listeners);
}

}  // namespace
}  // namespace foreshock::rpc
