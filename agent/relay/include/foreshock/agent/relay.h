// An agent for agents: takes their Ingest streams over gRPC and keeps what comes in the spool, from which it goes on as if
// a trainer of this node had sent it. For clusters whose nodes do not reach the server, or would be too many for it.
//
// One stream is one source, as at the server. It begins with Hello, which names its attempt (the first agent gives one),
// and is answered with HelloAck; records are acknowledged once they are synced in the spool. When the spool refuses, the
// stream is closed with UNAVAILABLE: the agent in front keeps its records and comes back. Replies of the server go down
// the same way.
//
// Beyond loopback only agents with a certificate of one CA are taken.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "foreshock/agent/spool.h"
#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::agent {

struct RelayOptions {
  std::string address;  // host:port; port 0: any free one
  // Files for mTLS; all three or none, and none only on loopback.
  std::string cert_file, key_file, client_ca_file;
  unsigned reload_seconds = 10;  // how often they are looked at for a change; streams that stand go on
  size_t max_message_bytes = size_t{16} << 20;  // also told to the agents in front
  size_t max_streams = 4096;                    // more are closed with RESOURCE_EXHAUSTED
  size_t queue_bytes = size_t{4} << 20;  // of one stream, between network and spool; the memory it costs
  int64_t max_wait_ms = 2000;            // of a stream whose queue is full, or whose batch the spool refuses
  Clock* clock = &SystemClock::Instance();
};

struct RelayStats {
  uint64_t streams = 0;   // open now
  uint64_t accepted = 0;  // since the start
  uint64_t refused = 0;   // closed because of a bad Hello or above max_streams
  uint64_t records = 0;   // spooled and acknowledged, repetitions included
  uint64_t bytes = 0;
  uint64_t rejected = 0;  // records that can never be taken; answered with an error
  uint64_t stalled = 0;   // streams closed because the spool took nothing
  uint64_t replies = 0;   // of the server, handed down
};

class Relay {
 public:
  // Listens at once. kInvalidArgument naming the option: an address beyond loopback without the three files,
  // or files that do not fit. The spool must outlive it.
  static Result<std::unique_ptr<Relay>> Start(Spool& spool, const RelayOptions& options);
  ~Relay();  // stops

  // Ends all streams; batches that are being appended finish.
  void Stop();
  int port() const;

  // Sends what a server's reply asks of a trainer to the agent in front of it. Kept (the last 64 a source, of
  // 4,096 sources) until that connects. Never blocks. Thread-safe.
  void Deliver(const SourceKey& key, const wire::Reply& reply);
  // Whether the source's stream is open here, or was: its replies belong here and not to a trainer of this
  // node.
  bool Knows(const SourceKey& key) const;

  RelayStats Stats() const;

  struct Impl;  // private to the implementation

 private:
  explicit Relay(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace foreshock::agent
