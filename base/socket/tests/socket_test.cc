#include "foreshock/base/socket.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace foreshock {
namespace {

using std::chrono::steady_clock;

TEST(Socket, WaitsForWhatComesAndNotBeyondItsTime) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_TRUE(WaitForSocket(ends[0], POLLOUT, steady_clock::now() + std::chrono::hours(1)));
  EXPECT_FALSE(WaitForSocket(ends[0], POLLIN, steady_clock::now() + std::chrono::milliseconds(5)));
  EXPECT_FALSE(WaitForSocket(ends[0], POLLOUT, steady_clock::now())) << "no time is left";
  ASSERT_EQ(::send(ends[1], "x", 1, 0), 1);
  EXPECT_TRUE(WaitForSocket(ends[0], POLLIN, steady_clock::now() + std::chrono::hours(1)));
  ::close(ends[1]);
  EXPECT_TRUE(WaitForSocket(ends[0], POLLIN, steady_clock::now() + std::chrono::hours(1))) << "a hang-up";
  ::close(ends[0]);
}

TEST(Socket, LiftsTheLimitOfFilesToWhatIsAllowed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  const uint64_t lifted = LiftFileLimit();
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(lifted, before.rlim_max == RLIM_INFINITY ? 0 : before.rlim_max);
}

TEST(Socket, KnowsWhatOnlyThisMachineReaches) {
  for (const char* host : {"127.0.0.1", "127.255.0.9", "localhost", "::1"})
    EXPECT_TRUE(IsLoopback(host)) << host;
  for (const char* host : {"", "128.0.0.1", "127.0.0", "127.0.0.1.example", "127.evil.example",
                           "localhost.example", "::2", "0.0.0.0"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace foreshock
