// Ingest: takes the streams of trainers and agents, checks what comes, makes it durable and then
// acknowledges.
//
// A stream begins with a Hello, within a time. What is wrong with it ends the stream with kInvalidArgument
// naming field, value and limit; kPermissionDenied where the caller may not write this run, also later, once
// its token is no longer good; kResourceExhausted above a limit. Of the records that follow
//   - what was stored before (same source and seq) is left out and acknowledged,
//   - what contradicts the Hello (unknown layers, wrong shapes) or lies absurdly far from the steps around it
//   is
//     quarantined: kept apart, acknowledged and counted, so that it blocks nothing behind it, and
//     the sender is told (Reply.error, final),
//   - what cannot be read at all is answered with an error and skipped; its number counts as a gap.
//
// One thread commits what all streams brought with one synced write (group commit), then acknowledges. While
// the store cannot write, what was taken stays in memory and is tried again; streams are closed
// with kUnavailable, so that senders keep their data and come back.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/rpc/ingest_service.h"
#include "foreshock/server/auth/gate.h"
#include "foreshock/server/ingest/outbox.h"
#include "foreshock/server/store/store.h"

namespace foreshock::ingest {

struct IngestOptions {
  // Who may write which runs; not owned, must outlive the Ingest. Null: everybody everything.
  const auth::Gate* gate = nullptr;
  // An identity is a token, else a client certificate, else an address.
  size_t max_streams = 16'384;                      // more are refused with kResourceExhausted
  size_t max_streams_per_identity = 16'384;         // likewise, of one identity
  size_t max_connections_per_identity = 8192;       // likewise, of those that streams come on
  size_t max_runs = 100'000;                        // likewise a Hello of a new run
  size_t max_new_runs_per_hour = 1000;              // likewise, of one identity
  size_t max_heads_per_run = 1u << 20;              // query heads over all layers; more: kInvalidArgument
  std::chrono::milliseconds hello_timeout{30'000};  // a stream without a Hello is closed then
  size_t max_message_bytes = 16u << 20;             // told to senders, which split larger steps
  size_t max_queued_bytes = 48u << 20;   // memory of records that wait for the disk, over all streams
  size_t max_batch_bytes = 4u << 20;     // of one commit; more: fewer syncs, later acknowledgements
  int64_t max_step = 999'999'999;        // steps are 0..max_step
  int64_t max_step_jump = 10'000'000;    // between neighbours of one source; see StepGuard
  std::chrono::milliseconds retry{500};  // between attempts to write to an ailing store
  std::chrono::milliseconds max_wait_for_room{2000};  // of a stream whose record finds the queue full
};

class Ingest {
 public:
  // Neither store nor clock are owned; both must outlive the Ingest.
  static std::unique_ptr<Ingest> Start(store::Store& store, const Clock& clock, const IngestOptions& options);
  // Closes all streams, commits what it holds (one attempt), stops. The rpc::Server must have been stopped.
  virtual ~Ingest() = default;
  // Ends all streams with kUnavailable and refuses new ones, so that stopping the rpc::Server need not wait.
  virtual void CloseStreams() = 0;

  virtual rpc::IngestHandlerFactory& handlers() = 0;
  virtual Outbox& outbox() = 0;
  // Ok, or why nothing is acknowledged at present, in one line.
  virtual Status health() const = 0;

  struct Stats {
    uint64_t streams = 0;  // open now
    uint64_t records = 0;  // made durable; duplicates and quarantined ones not counted
    uint64_t bytes = 0;    // of them
    uint64_t values = 0;   // single measurements in them
    uint64_t duplicates = 0;
    uint64_t quarantined = 0;
    uint64_t unreadable = 0;           // records that could not be decoded
    uint64_t refused_hellos = 0;       // streams that ended at their Hello
    uint64_t connections = 0;          // that open streams come on
    uint64_t refused_streams = 0;      // above a limit
    uint64_t refused_connections = 0;  // streams on one connection too many of an identity
    uint64_t refused_runs = 0;         // new runs above a limit
    uint64_t late_hellos = 0;          // streams closed because none came in time
    uint64_t revoked_streams = 0;      // closed because their token is no longer good
    uint64_t commits = 0;
    uint64_t failed_commits = 0;
    uint64_t overloads = 0;    // streams closed because the queue was full or the store ailing
    uint64_t share_waits = 0;  // records that waited because their run had its share of the queue
    uint64_t queued_bytes = 0;
  };
  virtual Stats stats() const = 0;
};

}  // namespace foreshock::ingest
