#include "listeners.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>

namespace foreshock::rpc {
namespace {

constexpr int kTriesOfFreePorts = 16;  // until one is free at all addresses of a name
constexpr int kMaxBacklog = 4096;      // the kernel's own limit is often lower
Status CannotListen(const std::string& address, int error) {
  return Status(Code::kUnavailable,
                "grpc: cannot listen on " + address + ": " + std::system_category().message(error) +
                    " (taken, not of this machine, or below 1024 without the right to). Stop what "
                    "listens there (ss -ltnp names it), or choose another; port 0: any free one");
}

struct HostAndPort {
  std::string host;
  int port = 0;
};

Result<HostAndPort> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostAndPort out;
  const char* end = address.data() + address.size();
  if (colon != std::string::npos && colon > 0) {
    const auto [at, error] = std::from_chars(address.data() + colon + 1, end, out.port);
    if (error == std::errc() && at == end && out.port >= 0 && out.port <= 65'535) {
      out.host = address.substr(0, colon);
      if (out.host.front() == '[' && out.host.back() == ']')
        out.host = out.host.substr(1, out.host.size() - 2);
      return out;
    }
  }
  return Status(Code::kInvalidArgument, "grpc: '" + address + "' is not HOST:PORT");
}

// -1 with errno.
int OpenListener(const addrinfo& at, int port, int user_timeout_ms) {
  const int fd = ::socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);  // the port is at the same place in both
  v4.sin_port = htons(static_cast<uint16_t>(port));
  // Connections inherit the last two. No SO_REUSEPORT: two servers on one port would share its streams.
  const int on = 1, off = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.ai_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), at.ai_addrlen) == 0 && ::listen(fd, kMaxBacklog) == 0)
    return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

// Of an address that this machine does not have.
bool IsAbsent(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

bool HasIpv6() {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  addrinfo any{};
  any.ai_family = AF_INET6;
  any.ai_addr = reinterpret_cast<sockaddr*>(&address);
  any.ai_addrlen = sizeof address;
  const int fd = OpenListener(any, 0, 0);
  if (fd >= 0) ::close(fd);
  return fd >= 0 || !IsAbsent(errno);
}

std::string TextOf(const addrinfo& at) {
  char text[NI_MAXHOST] = "?";
  ::getnameinfo(at.ai_addr, at.ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

int PortOf(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<AddressList> Resolve(const std::string& host, const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return Status(Code::kUnavailable, "grpc: cannot listen on " + address + ": " + ::gai_strerror(error));
  }
  return AddressList(found, ::freeaddrinfo);
}

// Files of hosts may name an address twice.
bool StandsBefore(const addrinfo* list, const addrinfo* at) {
  for (; list != at; list = list->ai_next) {
    if (list->ai_addrlen == at->ai_addrlen && std::memcmp(list->ai_addr, at->ai_addr, at->ai_addrlen) == 0)
      return true;
  }
  return false;
}

// At each address that this machine has. Where one cannot be had, that one, with its errno.
const addrinfo* OpenEach(const addrinfo* addresses, int port, int user_timeout_ms, Listeners* out,
                         int* error) {
  for (const addrinfo* at = addresses; at != nullptr; at = at->ai_next) {
    if (StandsBefore(addresses, at)) continue;
    const int fd = OpenListener(*at, out->fds.empty() ? port : out->port, user_timeout_ms);
    if (fd >= 0) {
      out->fds.push_back(fd);
      out->port = PortOf(fd);
      continue;
    }
    *error = errno;
    if (!IsAbsent(*error)) return at;
  }
  return nullptr;
}

}  // namespace

Result<Listeners> ListenAtAll(const std::string& name, const addrinfo* addresses, int port,
                              int user_timeout_ms) {
  for (int tries = kTriesOfFreePorts;; --tries) {
    Listeners out;
    int error = EADDRNOTAVAIL;
    const addrinfo* failed = OpenEach(addresses, port, user_timeout_ms, &out, &error);
    if (failed == nullptr && !out.fds.empty()) return out;
    for (const int fd : out.fds) ::close(fd);
    // What was free at the first address may be taken at another.
    if (port == 0 && error == EADDRINUSE && tries > 1) continue;
    const std::string address = name + ":" + std::to_string(port);
    const bool one_of_several = failed != nullptr && addresses->ai_next != nullptr;
    return CannotListen(one_of_several ? address + ", of its addresses on " + TextOf(*failed) : address,
                        error);
  }
}

Result<Listeners> ListenAt(const std::string& address, int user_timeout_ms) {
  FS_ASSIGN_OR_RETURN(const HostAndPort at, Split(address));
  const bool all = at.host == "0.0.0.0" && HasIpv6();
  FS_ASSIGN_OR_RETURN(const AddressList list, Resolve(all ? "::" : at.host, address));
  return ListenAtAll(address.substr(0, address.rfind(':')), list.get(), at.port, user_timeout_ms);
}

}  // namespace foreshock::rpc
