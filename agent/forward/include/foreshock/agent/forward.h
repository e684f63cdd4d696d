// The agent's mouth: sends what the spool holds to the server, one Ingest.Stream per source.
//
// After connecting it says Hello, learns what the server already has, and sends from the first record that is
// not acknowledged. What the server acknowledges as durable is acknowledged in the spool. When the server is
// away it tries again with exponential backoff and jitter, for ever, and says so in one log line when it
// begins and one when it ends; the spool keeps everything meanwhile. Actions, sampling changes and errors in
// the server's replies go to a callback.
//
// A server that refuses a Hello is not asked the same again and again. Where the Hello is wrong (name,
// version: INVALID_ARGUMENT) its source waits for another Hello or another agent; where a limit or a right
// stands in the way it is tried again every refused_retry_ms. The trainer is told once, stats() name source
// and reason, and the records stay in the spool. A record longer than the server takes is left out, declared
// lost by the next one, counted, and acknowledged in the spool once everything before it is.
//
// Delivery is at least once: a record may be sent again after a reconnect, and the server drops it by its
// seq.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/agent/spool.h"
#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::agent {

struct ForwarderOptions {
  // host:port, or several with commas between: each run then goes to one of them, by its name (rendezvous
  // hashing), from every agent that has the same list in whatever order. When one is taken off the list only
  // its runs move.
  std::string address;
  std::string token;       // bearer token; empty: none
  std::string token_file;  // its first line is the token, read anew for each stream; wins over `token`
  bool tls = false;        // one of the three files means TLS, too
  std::string ca_file;     // TLS roots; empty: the system's
  std::string cert_file, key_file;  // of the agent, for mTLS; empty: none
  size_t max_message_bytes = size_t{16} << 20;
  int64_t keepalive_s = 30;  // a connection with streams that is quiet so long is pinged; 5 to 86,400
  int64_t connect_timeout_ms = 2000;  // until there is a connection
  int64_t greet_timeout_ms = 15'000;  // for the server's answer to Hello
  int64_t backoff_initial_ms = 200;   // doubles with every failure ...
  int64_t backoff_max_ms = 3000;      // ... up to this; each wait is a random half to whole of it
  // How long a source that the server refused for its limits or rights waits before it is tried again.
  int64_t refused_retry_ms = 60'000;
  // Streams of sources whose trainer is gone, at a time; sources with a trainer always have theirs.
  size_t max_backlog_streams = 16;
  uint64_t seed = 0;  // of the jitter; 0: from the system
  Clock* clock = &SystemClock::Instance();
};

// One of several servers.
struct ServerStats {
  std::string address;
  uint64_t streams = 0;  // open and greeted now
  uint64_t failures = 0;
  bool away = false;
  std::string last_error;
};

// A source whose Hello the server refused.
struct RefusedSource {
  SourceKey key;
  std::string reason;  // the server's words
  bool final = false;  // not tried again with this Hello
  uint64_t times = 0;
  int64_t since_unix_ns = 0;
};

struct ForwarderStats {
  bool connected = false;      // at least one stream is open and greeted
  uint64_t streams = 0;        // open and greeted now
  uint64_t opened = 0;         // since the start
  uint64_t failures = 0;       // streams that could not be opened, or broke
  uint64_t sent = 0;           // records written, repetitions included
  uint64_t acknowledged = 0;   // seqs acknowledged by the server since the start
  uint64_t errors = 0;         // errors in replies
  uint64_t undeliverable = 0;  // records longer than the server takes, left out, declared lost and given up
  uint64_t refusals = 0;       // Hellos refused since the start
  // This node's clock minus the server's, by the server's replies: the least seen in the last ten minutes or
  // so, which the way of a reply makes a little too large. Nothing before the first reply.
  std::optional<double> clock_skew_seconds;
  std::vector<RefusedSource> refused;  // that are refused now
  std::vector<ServerStats> servers;    // one each; what stands above are sums over them
  std::string last_error;              // of the last failure or error, empty when there was none
};

class Forwarder {
 public:
  // Called for every reply with actions, sampling or an error; from several threads, must return soon.
  using Downlink = std::function<void(const SourceKey&, const wire::Reply&)>;

  // Starts; a server that is away is no failure. kInvalidArgument for an address, a token or TLS files that
  // make no sense. The spool must outlive it.
  static Result<std::unique_ptr<Forwarder>> Start(Spool& spool, const ForwarderOptions& options,
                                                  Downlink downlink);
  ~Forwarder();  // stops

  // Ends all streams. What the server has not acknowledged stays in the spool.
  void Stop();

  ForwarderStats Stats() const;

  struct Impl;  // private to the implementation

 private:
  explicit Forwarder(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace foreshock::agent
