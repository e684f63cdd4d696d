#include "foreshock/base/socket.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>

namespace foreshock {

bool WaitForSocket(int fd, short events, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd poll{fd, events, 0};
    const int n = ::poll(&poll, 1, static_cast<int>(left.count()));
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

bool IsLoopback(std::string_view host) {
  in_addr v4{};
  if (::inet_pton(AF_INET, std::string(host).c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "localhost" || host == "::1";
}

uint64_t LiftFileLimit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  if (files.rlim_cur < files.rlim_max) {
    rlimit lifted = files;
    lifted.rlim_cur = files.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &lifted) == 0) files = lifted;
  }
  return files.rlim_cur == RLIM_INFINITY ? 0 : files.rlim_cur;
}

}  // namespace foreshock
