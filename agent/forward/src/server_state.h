// Whether the server is there, as all streams together see it; turns their many failures into few log lines.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "foreshock/agent/forward.h"

namespace foreshock::agent {

inline constexpr std::string_view kForwardComponent = "agent/forward";  // of log lines

// Thread-safe.
class ServerState {
 public:
  ServerState(std::string address, Clock& clock) : address_(std::move(address)), clock_(clock) {}

  // A stream of a source is open and greeted; it is over.
  void StreamOpened(const SourceKey& key);
  void StreamClosed();
  // A stream could not be opened or broke. Logged when it is the first since all was well, then every ten
  // minutes.
  void Failed(const SourceKey& key, const Status& status);
  // The server refused a source's Hello. Logged, and true, when the reason is new.
  bool Refused(const SourceKey& key, const Status& reason);
  // Refused sources that are not among these are gone.
  void ForgetOthers(const std::set<SourceKey>& sources);
  // The server answered a record with an error. The first of each source's stream is logged.
  void ErrorReply(const SourceKey& key, const wire::IngestError& error, bool log);

  // A reply said what time it is at the server.
  void SawServerClock(int64_t server_unix_ns);

  void CountSent() { ++sent_; }
  void CountAcknowledged(uint64_t seqs) { acknowledged_ += seqs; }
  void CountUndeliverable() { ++undeliverable_; }
  ForwarderStats Stats() const;
  const std::string& address() const { return address_; }
  bool away() const;

 private:
  const std::string address_;
  Clock& clock_;
  std::atomic<uint64_t> sent_{0};
  std::atomic<uint64_t> acknowledged_{0};
  std::atomic<uint64_t> undeliverable_{0};

  mutable std::mutex mutex_;  // guards everything below
  ForwarderStats stats_;
  bool away_ = false;
  int64_t away_since_ns_ = 0;
  int64_t logged_ns_ = 0;
  std::map<SourceKey, RefusedSource> refused_;
  // The least difference since window_began_ns_, and that of the window before it.
  std::optional<int64_t> skew_ns_, skew_before_ns_;
  int64_t window_began_ns_ = 0;
};

}  // namespace foreshock::agent
