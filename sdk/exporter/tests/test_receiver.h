// The other end of a unix link, in the test's process: speaks the real protocol and does what a test tells
// it.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "foreshock/wire/record.h"

namespace foreshock::testing {

class TestReceiver {
 public:
  explicit TestReceiver(std::string path) : path_(std::move(path)) { Listen(); }
  ~TestReceiver() { Shutdown(); }

  // What the next connections do.
  std::atomic<bool> acknowledge{true};
  std::atomic<uint64_t> durable_at_hello{0};
  std::string refusal;  // of every Hello, which ends the connection; set before a connection
  std::string mint;     // attempt answered when the Hello has none; set before a connection

  struct Got {
    wire::RecordType type;
    uint64_t seq = 0, dropped_before = 0;
    int64_t step = 0;
    std::string payload;
    int connection = 0;
  };

  std::vector<Got> records() const {
    std::lock_guard lock(mutex_);
    return records_;
  }
  std::vector<wire::Hello> hellos() const {
    std::lock_guard lock(mutex_);
    return hellos_;
  }
  bool saw_end() const { return ends_ > 0; }

  // Waits until the predicate over the records holds; false after 20 s.
  bool WaitFor(const std::function<bool(const std::vector<Got>&)>& holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return holds(records_); });
  }
  bool WaitForHello(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return hellos_.size() >= count; });
  }
  bool WaitForEnd() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return ends_ > 0; });
  }

  // Sends a reply down the present connection.
  void Reply(const wire::Reply& reply) {
    std::string bytes;
    wire::AppendRecord(wire::RecordType::kReply, wire::Encode(reply), &bytes);
    std::lock_guard lock(mutex_);
    if (connection_ >= 0) (void)!send(connection_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  // Ends the present connection, as a killed agent does. The socket goes on listening.
  void HangUp() {
    std::lock_guard lock(mutex_);
    if (connection_ >= 0) shutdown(connection_, SHUT_RDWR);
  }

  void Shutdown() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    HangUp();
    thread_.join();
    close(listener_);
    unlink(path_.c_str());
  }

 private:
  void Listen() {
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener_, 8) != 0) {
      std::abort();
    }
    thread_ = std::thread([this] { Run(); });
  }

  void Run() {
    while (!stopping_) {
      pollfd wait = {listener_, POLLIN, 0};
      if (poll(&wait, 1, 20) <= 0) continue;
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      {
        std::lock_guard lock(mutex_);
        connection_ = fd;
        ++connections_;
      }
      Serve(fd);
      std::lock_guard lock(mutex_);
      connection_ = -1;
      close(fd);
      ++ends_;
      changed_.notify_all();
    }
  }

  void Serve(int fd) {
    wire::RecordParser parser;
    char bytes[16384];
    for (;;) {
      const ssize_t n = recv(fd, bytes, sizeof bytes, 0);
      if (n <= 0) return;
      parser.Feed({bytes, static_cast<size_t>(n)});
      for (;;) {
        auto next = parser.Next();
        if (!next.ok() || !next->has_value()) break;
        Take(**next);
      }
    }
  }

  void Take(const wire::Record& record) {
    wire::Reply reply;
    if (record.type == wire::RecordType::kHello) {
      auto hello = wire::DecodeHello(record.payload);
      if (!hello.ok()) return;
      reply.hello = wire::HelloAck{hello->attempt.empty() ? mint : hello->attempt,
                                   wire::AttemptSource::kMinted, durable_at_hello, 0};
      reply.durable_seq = durable_at_hello;
      {
        std::lock_guard lock(mutex_);
        hellos_.push_back(*hello);
        changed_.notify_all();
      }
      if (!refusal.empty()) {
        reply = wire::Reply{};
        wire::IngestError error;
        error.message = refusal;
        error.final = true;
        reply.error = error;
        Reply(reply);
        return HangUp();
      }
      return Reply(reply);
    }
    const auto head = wire::PeekHead(record.payload);
    if (!head.ok()) return;
    {
      std::lock_guard lock(mutex_);
      records_.push_back(
          {record.type, head->seq, head->dropped_before, head->step, record.payload, connections_});
      changed_.notify_all();
    }
    if (!acknowledge) return;
    reply.durable_seq = head->seq;
    Reply(reply);
  }

  const std::string path_;
  int listener_ = -1;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Got> records_;
  std::vector<wire::Hello> hellos_;
  int connection_ = -1;
  int connections_ = 0;
  int ends_ = 0;
};

}  // namespace foreshock::testing
