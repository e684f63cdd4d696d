// The few socket calls of the receiver.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "foreshock/base/result.h"

namespace foreshock::agent {

// Owns a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

struct PeerCredentials {
  bool known = false;  // the kernel told them
  int pid = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
};

// A listening socket at `path` with mode 0660, in place of a stale one.
Result<Descriptor> ListenUnix(const std::string& path);
// The next connection, non-blocking; invalid when there is none (any more).
Descriptor AcceptUnix(const Descriptor& listener);
// Of the process that connected, at the time when it did.
PeerCredentials CredentialsOf(const Descriptor& socket);

// An eventfd: Signal wakes a poll on it until Drain.
Descriptor MakeEvent();
void SignalEvent(const Descriptor& event);
void DrainEvent(const Descriptor& event);

enum class IoOutcome { kOk, kWouldBlock, kClosed };
// Reads up to `limit` bytes, appended to *out.
IoOutcome ReadSome(const Descriptor& socket, size_t limit, std::string* out);
// Writes what goes, *written bytes of it.
IoOutcome WriteSome(const Descriptor& socket, std::string_view data, size_t* written);

}  // namespace foreshock::agent
