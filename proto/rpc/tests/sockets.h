// Plain sockets on loopback, for tests of what accepts them.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace foreshock::rpc::test {

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

inline sockaddr_in Loopback(const char* host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  ::inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

// On any free port.
inline Socket Listen() {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback("127.0.0.1", 0);
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.fd(), 128) != 0) {
    return Socket(-1);
  }
  return socket;
}

inline int PortOf(const Socket& socket) {
  sockaddr_in own{};
  socklen_t size = sizeof own;
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.sin_port);
}

// A connection to the port from this address of 127.0.0.0/8; fd -1 where it does not come about.
inline Socket Connect(int port, const char* from) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in own = Loopback(from, 0), to = Loopback("127.0.0.1", port);
  if (::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    return Socket(-1);
  }
  return socket;
}

}  // namespace foreshock::rpc::test
