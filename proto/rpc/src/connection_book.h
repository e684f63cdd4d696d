// Which connections stand, by the host at their other end: one host must not take all of them.
//
// gRPC takes over the sockets it is given and closes them without a word. So a connection is over when its
// number is handed out anew, and before a host is refused, all numbers are asked whether they still are the
// connections that they were (getpeername). For one thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>

#include "foreshock/base/shares.h"

namespace foreshock::rpc {

class ConnectionBook {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;
  // At most so many connections. Whose share of them is whose: base/shares.
  explicit ConnectionBook(size_t most) : most_(most) {}

  // A connection that was just accepted. Not kFree: there is no room for one more of its host, and the caller
  // closes it.
  Room Enter(int fd, const sockaddr_storage& peer, socklen_t size, SteadyTime now);

  // Those that stood when they were last looked at.
  size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    std::string peer;  // its sockaddr, port included
    std::string host;
  };
  Room RoomOf(const std::string& host) const;
  void Leave(int fd);
  void Sweep();

  const size_t most_;
  std::unordered_map<int, Connection> connections_;
  std::unordered_map<std::string, size_t> held_;  // by host, none of them 0
  SteadyTime swept_at_{};
};

// What counts as one host: an IPv4 address (also one that came as IPv6), or the first 64 bits of an IPv6
// address, because whoever has one of these has all. Others: all the same.
std::string HostOf(const sockaddr_storage& peer);

// The same for people: "10.0.0.1", "2001:db8::/64"; "?" for others.
std::string HostText(const sockaddr_storage& peer);

}  // namespace foreshock::rpc
