// A trainer's end of the unix link, for tests: what the SDK's exporter does, with blocking calls.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>

#include "foreshock/wire/codec.h"
#include "foreshock/wire/record.h"

namespace foreshock::agent {

class Trainer {
 public:
  explicit Trainer(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), address.sun_path);
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Trainer() { HangUp(); }

  void HangUp() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  bool connected() const { return connected_; }

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  bool SendRecord(wire::RecordType type, const std::string& payload) {
    std::string bytes;
    wire::AppendRecord(type, payload, &bytes);
    return Send(bytes);
  }
  bool SendFrame(uint64_t seq, size_t padding = 0) {
    wire::Event event;
    event.seq = seq;
    event.step = static_cast<int64_t>(seq);
    event.detail = std::string(padding, 'x');
    return SendRecord(wire::RecordType::kEvent, wire::Encode(event));
  }

  // The next reply; nothing when the agent has closed the link.
  std::optional<wire::Reply> Receive() {
    for (;;) {
      auto record = parser_.Next();
      EXPECT_TRUE(record.ok()) << record.status().ToString();
      if (!record.ok()) return std::nullopt;
      if (record->has_value()) {
        EXPECT_EQ((*record)->type, wire::RecordType::kReply);
        return wire::DecodeReply((*record)->payload).value();
      }
      char buffer[4096];
      const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) return std::nullopt;
      parser_.Feed(std::string_view(buffer, static_cast<size_t>(n)));
    }
  }
  // Replies until one acknowledges seq.
  bool ReceiveAck(uint64_t seq) {
    while (auto reply = Receive()) {
      if (reply->durable_seq >= seq) return true;
    }
    return false;
  }
  wire::HelloAck Greet(uint32_t rank = 0, uint64_t incarnation = 7, const std::string& attempt = "a") {
    wire::Hello hello;
    hello.run = "run";
    hello.attempt = attempt;
    hello.rank = rank;
    hello.world_size = 64;
    hello.incarnation = incarnation;
    EXPECT_TRUE(SendRecord(wire::RecordType::kHello, wire::Encode(hello)));
    const auto reply = Receive();
    EXPECT_TRUE(reply.has_value() && reply->hello.has_value());
    return reply.has_value() && reply->hello.has_value() ? *reply->hello : wire::HelloAck{};
  }

 private:
  int fd_;
  bool connected_;
  wire::RecordParser parser_;
};

}  // namespace foreshock::agent
