// One accepted connection, plain or TLS, as the HTTP library's stream: with deadlines for whole requests, so
// that a client that sends or reads a byte now and then does not hold a thread for long. Private.
#pragma once

#include <httplib.h>

#include <chrono>
#include <string>

#include "tls_context.h"

namespace foreshock::http {

struct Deadlines {
  std::chrono::milliseconds handshake{5'000};
  std::chrono::milliseconds request{15'000};  // from its first byte to its last
  std::chrono::milliseconds answer{60'000};   // likewise
};

// One thread. Owns the socket.
class Connection final : public httplib::Stream {
 public:
  Connection(int fd, const Deadlines& deadlines);
  ~Connection() override;  // says goodbye and closes

  // The TLS handshake; false when it fails.
  bool Accept(const TlsContext& tls);
  // Waits for the next request's first byte; false when none comes.
  bool AwaitRequest(std::chrono::milliseconds timeout);
  const std::string& address() const { return address_; }

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* bytes, size_t size) override;
  ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return fd_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  // The call's result, waiting where it asks for it (a plain socket: for these events); -1 when the time is
  // over or the connection is.
  template <typename Call>
  ssize_t Retry(short plain_events, Call call);
  bool Wait(short events) const;

  const int fd_;
  const Deadlines deadlines_;
  std::string address_;
  int port_ = 0;
  ssl_st* ssl_ = nullptr;
  Time deadline_;
  bool answering_ = false;
  std::string buffer_;  // read and not yet taken: the library takes byte by byte
  size_t taken_ = 0;
};

}  // namespace foreshock::http
