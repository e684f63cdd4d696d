#include "connection_book.h"

#include <arpa/inet.h>

#include <cstring>
#include <vector>

namespace foreshock::rpc {
namespace {

// A look at 16,384 connections takes a few milliseconds; in between a host is refused by what was seen last.
constexpr std::chrono::milliseconds kBetweenSweeps{100};

std::string BytesOf(const sockaddr_storage& peer, socklen_t size) {
  return std::string(reinterpret_cast<const char*>(&peer), size);
}

bool StillStands(int fd, const std::string& peer) {
  sockaddr_storage now{};
  socklen_t size = sizeof now;
  return ::getpeername(fd, reinterpret_cast<sockaddr*>(&now), &size) == 0 && BytesOf(now, size) == peer;
}

}  // namespace

std::string HostOf(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    return std::string(reinterpret_cast<const char*>(&v4.sin_addr), sizeof v4.sin_addr);
  }
  if (peer.ss_family != AF_INET6) return "";
  const auto* bytes = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr.s6_addr;
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr);
  return mapped ? std::string(reinterpret_cast<const char*>(bytes) + 12, 4)
                : std::string(reinterpret_cast<const char*>(bytes), 8);
}

std::string HostText(const sockaddr_storage& peer) {
  const std::string host = HostOf(peer);
  char text[INET6_ADDRSTRLEN] = "?";
  if (host.size() == sizeof(in_addr)) {
    ::inet_ntop(AF_INET, host.data(), text, sizeof text);
    return text;
  }
  if (host.empty()) return text;
  in6_addr network{};
  std::memcpy(&network, host.data(), host.size());
  ::inet_ntop(AF_INET6, &network, text, sizeof text);
  return std::string(text) + "/64";
}

Room ConnectionBook::Enter(int fd, const sockaddr_storage& peer, socklen_t size, SteadyTime now) {
  Leave(fd);
  std::string host = HostOf(peer);
  Room room = RoomOf(host);
  if (room != Room::kFree) {
    if (now - swept_at_ < kBetweenSweeps) return room;
    Sweep();
    swept_at_ = now;
    room = RoomOf(host);
    if (room != Room::kFree) return room;
  }
  ++held_[host];
  connections_[fd] = {BytesOf(peer, size), std::move(host)};
  return Room::kFree;
}

Room ConnectionBook::RoomOf(const std::string& host) const {
  const auto found = held_.find(host);
  const size_t own = found == held_.end() ? 0 : found->second;
  return RoomFor(1, own, connections_.size(), most_, held_.size() + (own == 0 ? 1 : 0));
}

void ConnectionBook::Leave(int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  const auto held = held_.find(found->second.host);
  if (--held->second == 0) held_.erase(held);
  connections_.erase(found);
}

void ConnectionBook::Sweep() {
  std::vector<int> ended;
  for (const auto& [fd, connection] : connections_) {
    if (!StillStands(fd, connection.peer)) ended.push_back(fd);
  }
  for (const int fd : ended) Leave(fd);
}

}  // namespace foreshock::rpc
