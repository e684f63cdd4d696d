#include "connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "foreshock/base/socket.h"

namespace foreshock::http {
namespace {

constexpr size_t kReadBytes = 4096;
constexpr char kPlainToTls[] =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    "This port talks TLS: use https://\n";

void Describe(const sockaddr_storage& address, std::string* ip, int* port) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    *port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    *port = ntohs(v6.sin6_port);
  }
  *ip = text;
}

}  // namespace

Connection::Connection(int fd, const Deadlines& deadlines) : fd_(fd), deadlines_(deadlines) {
  ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(fd_, reinterpret_cast<sockaddr*>(&peer), &size) == 0) Describe(peer, &address_, &port_);
}

Connection::~Connection() {
  if (ssl_ != nullptr) {
    SSL_shutdown(ssl_);  // once: whoever does not answer is not waited for
    SSL_free(ssl_);
  }
  ::shutdown(fd_, SHUT_RDWR);
  ::close(fd_);
}

bool Connection::Accept(const TlsContext& tls) {
  deadline_ = std::chrono::steady_clock::now() + deadlines_.handshake;
  ssl_ = tls.NewSession(fd_);
  if (ssl_ == nullptr) return false;
  if (Retry(POLLIN, [this] { return SSL_accept(ssl_); }) == 1) return true;
  const bool plain = ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_HTTP_REQUEST;
  ERR_clear_error();
  SSL_free(ssl_);  // nothing more may be said through it
  ssl_ = nullptr;
  if (plain) (void)::send(fd_, kPlainToTls, sizeof kPlainToTls - 1, MSG_NOSIGNAL);
  return false;
}

bool Connection::AwaitRequest(std::chrono::milliseconds timeout) {
  const bool waiting = taken_ < buffer_.size() || (ssl_ != nullptr && SSL_pending(ssl_) > 0);
  if (!waiting && !WaitForSocket(fd_, POLLIN, std::chrono::steady_clock::now() + timeout)) return false;
  deadline_ = std::chrono::steady_clock::now() + deadlines_.request;
  answering_ = false;
  return true;
}

bool Connection::Wait(short events) const { return WaitForSocket(fd_, events, deadline_); }

template <typename Call>
ssize_t Connection::Retry(short plain_events, Call call) {
  for (;;) {
    errno = 0;
    if (ssl_ != nullptr) ERR_clear_error();
    const ssize_t n = call();
    if (n > 0) return n;
    short events = 0;
    if (ssl_ == nullptr) {
      if (n == 0) return 0;
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return -1;
      events = plain_events;
    } else {
      const int error = SSL_get_error(ssl_, static_cast<int>(n));
      if (error == SSL_ERROR_ZERO_RETURN) return 0;
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return -1;
      events = error == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    }
    if (!Wait(events)) return -1;
  }
}

bool Connection::is_readable() const {
  return taken_ < buffer_.size() || (ssl_ != nullptr && SSL_pending(ssl_) > 0) || Wait(POLLIN);
}

bool Connection::is_writable() const { return Wait(POLLOUT); }

ssize_t Connection::read(char* bytes, size_t size) {
  if (taken_ == buffer_.size()) {
    buffer_.resize(kReadBytes);
    const ssize_t n = Retry(POLLIN, [this]() -> ssize_t {
      return ssl_ != nullptr ? SSL_read(ssl_, buffer_.data(), static_cast<int>(buffer_.size()))
                             : ::recv(fd_, buffer_.data(), buffer_.size(), 0);
    });
    buffer_.resize(n > 0 ? static_cast<size_t>(n) : 0);
    taken_ = 0;
    if (n <= 0) return n;
  }
  const size_t given = std::min(size, buffer_.size() - taken_);
  std::memcpy(bytes, buffer_.data() + taken_, given);
  taken_ += given;
  return static_cast<ssize_t>(given);
}

ssize_t Connection::write(const char* bytes, size_t size) {
  if (size == 0) return 0;
  if (!answering_) deadline_ = std::chrono::steady_clock::now() + deadlines_.answer;
  answering_ = true;
  const int most = static_cast<int>(std::min<size_t>(size, 1 << 20));
  return Retry(POLLOUT, [&]() -> ssize_t {
    return ssl_ != nullptr ? SSL_write(ssl_, bytes, most)
                           : ::send(fd_, bytes, static_cast<size_t>(most), MSG_NOSIGNAL);
  });
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip = address_;
  port = port_;
}

void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (::getsockname(fd_, reinterpret_cast<sockaddr*>(&local), &size) == 0) Describe(local, &ip, &port);
}

}  // namespace foreshock::http
