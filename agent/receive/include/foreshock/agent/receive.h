// The agent's ear: a unix socket on which trainer processes of this node deliver their records
// (docs/formats/link.md).
//
// One connection is one trainer process. It begins with Hello and is answered with HelloAck: the attempt
// (minted here where the Hello has none) and the highest seq that is durable here. Records are appended to
// the spool and acknowledged once they are synced there; many connections share a sync. When the spool
// refuses (limit, disk) the connection stops reading: the trainer's SDK then drops its oldest frames and
// counts them, and nothing that was acknowledged is lost. Replies of the server (actions, sampling) go down
// the same link.
//
// A connection is closed on damage (checksum, unknown framing), on a bad Hello and when a newer connection of
// the same process takes over. Every trainer's process id and user are logged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/agent/spool.h"
#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/wire/types.h"

namespace foreshock::agent {

struct ReceiverOptions {
  std::string socket_path;                // at most 107 bytes; a stale socket there is replaced
  size_t max_connections = 1024;          // more are closed at once
  size_t max_connections_per_user = 512;  // likewise, of one user id: nobody takes them all
  // User ids whose trainers are taken, by the kernel's word on the other end; root and this process's own
  // always are. Empty: whomever the socket's mode (0660) and group let in.
  std::vector<uint32_t> allowed_uids;
  size_t max_record_bytes = size_t{16} << 20;  // of one record; also told to the trainer
  size_t batch_bytes =
      size_t{1} << 20;         // records gathered for one append; memory per connection is about twice this
  int64_t retry_ms = 250;      // between tries while the spool refuses
  int64_t orphan_ms = 60'000;  // how long the last batch of a gone trainer waits for space
  Clock* clock = &SystemClock::Instance();
  uint64_t seed = 0;  // of minted attempts; 0: from the system
};

struct ReceiverStats {
  uint64_t connections = 0;  // open now
  uint64_t accepted = 0;
  uint64_t refused = 0;        // connections closed at once, or after a bad Hello
  uint64_t refused_users = 0;  // of them, because of who they are
  uint64_t records = 0;        // spooled and acknowledged, repetitions included
  uint64_t bytes = 0;
  uint64_t damaged = 0;   // connections closed because of damage
  uint64_t rejected = 0;  // records that can never be taken (no seq, too long); answered with an error
  uint64_t dropped_by_trainers = 0;  // sum of dropped_before: what SDKs declared lost
  uint64_t stalled = 0;              // connections that wait for the spool right now
  uint64_t abandoned = 0;            // records of gone trainers given up after orphan_ms
  uint64_t replies = 0;              // downward replies handed to trainers
};

class Receiver {
 public:
  // Listens at once. kInvalidArgument for a path that is too long; kAlreadyExists when something else than a
  // socket is there; file errors. The spool must outlive it. At most one receiver per path: the caller holds
  // a lock.
  static Result<std::unique_ptr<Receiver>> Start(Spool& spool, const ReceiverOptions& options);
  ~Receiver();  // stops

  // Takes no more connections, lets batches that are being appended finish, closes all, removes the socket.
  void Stop();

  // Sends the actions, the sampling and the error of a server's reply down to a trainer; its durable_seq and
  // hello are the server's business with this agent and are left out. Kept (the last 64 a source) until the
  // trainer connects. Never blocks. Thread-safe.
  void Deliver(const SourceKey& key, const wire::Reply& reply);

  ReceiverStats Stats() const;

  struct Impl;  // private to the implementation

 private:
  explicit Receiver(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace foreshock::agent
