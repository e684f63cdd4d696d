#include "acceptor.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <system_error>

#include "connection_book.h"

namespace foreshock::rpc {
namespace {

constexpr int kMaxBacklog = 4096;         // the kernel's own limit is often lower
constexpr int kAtATime = 64;              // of one listener, before the others are looked at
constexpr int kWithoutDescriptors = 100;  // ms

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

int PortOf(int fd) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

// A reset, so that nothing of it stays behind here.
void Reset(int fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(fd);
}

bool IsLackOfRoom(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::Listen(const std::string& address, int user_timeout_ms) {
  FS_ASSIGN_OR_RETURN(HostAndPort at, Split(address));
  std::unique_ptr<Acceptor> acceptor(new Acceptor);
  acceptor->wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (acceptor->wake_ < 0) return CannotListen(address, errno);
  const bool all = at.host == "0.0.0.0";
  if (all && acceptor->Bind("::", at.port, user_timeout_ms).ok()) return acceptor;
  const Status bound = acceptor->Bind(at.host, at.port, user_timeout_ms);
  if (!bound.ok()) return bound;
  return acceptor;
}

// On all addresses of the name that can be bound; an error where none can.
Status Acceptor::Bind(const std::string& host, int port, int user_timeout_ms) {
  const std::string address =
      (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return Status(Code::kUnavailable, "grpc: cannot listen on " + address + ": " + ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = OpenListener(*at, port_ != 0 ? port_ : port, user_timeout_ms);
    if (fd < 0) {
      error = errno;
      continue;
    }
    listeners_.push_back(fd);
    port_ = PortOf(fd);
  }
  return listeners_.empty() ? CannotListen(address, error) : OkStatus();
}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::Start(Take take, size_t most) {
  take_ = std::move(take);
  sigset_t every, old;
  sigfillset(&every);
  ::pthread_sigmask(SIG_SETMASK, &every, &old);
  thread_ = std::thread([this, most] { Run(most); });
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void Acceptor::Stop() {
  if (thread_.joinable()) {
    ::eventfd_write(wake_, 1);
    thread_.join();
  }
  for (const int fd : listeners_) ::close(fd);
  listeners_.clear();
  if (wake_ >= 0) ::close(wake_);
  wake_ = -1;
}

void Acceptor::Run(size_t most) {
  ConnectionBook book(most);
  std::vector<pollfd> polled{{wake_, POLLIN, 0}};
  for (const int fd : listeners_) polled.push_back({fd, POLLIN, 0});
  for (;;) {
    if (::poll(polled.data(), polled.size(), -1) < 0) {
      // A lack of memory passes; a server that accepts nothing any more would not be noticed.
      if (errno != EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(kWithoutDescriptors));
      continue;
    }
    if ((polled[0].revents & POLLIN) != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      for (int taken = 0; taken < kAtATime; ++taken) {
        sockaddr_storage peer{};
        socklen_t size = sizeof peer;
        const int fd =
            ::accept4(polled[i].fd, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
          // The connection stays in the kernel's queue; it would be found at once again.
          if (IsLackOfRoom(errno)) ::poll(polled.data(), 1, kWithoutDescriptors);
          break;
        }
        if (book.Enter(fd, peer, size, std::chrono::steady_clock::now())) {
          take_(polled[i].fd, fd);
        } else {
          Reset(fd);
          ++refused_;
        }
      }
    }
  }
}

}  // namespace foreshock::rpc
