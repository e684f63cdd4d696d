// StreamEnd: this server's end of one open stream, shared by the session that reads it, the committer that
// acknowledges and the outbox that sends actions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>

#include "foreshock/rpc/ingest_service.h"

namespace foreshock::ingest {

// Thread-safe.
class StreamEnd {
 public:
  explicit StreamEnd(std::shared_ptr<rpc::ReplySink> sink) : sink_(std::move(sink)) {}

  bool Send(const wire::Reply& reply) { return sink_->Send(reply); }
  void Close(const Status& status) { sink_->Close(status); }

  // Records on their way to the disk. The last acknowledgement after the sender's end closes the stream.
  void Queued() {
    std::lock_guard lock(mutex_);
    ++in_flight_;
  }
  // The sender has nothing more.
  void Ended() {
    std::lock_guard lock(mutex_);
    ended_ = true;
    if (in_flight_ == 0) sink_->Close(OkStatus());
  }
  // `records` of them are durable.
  void Acknowledge(uint64_t durable_seq, uint64_t records, int64_t now_unix_ns) {
    std::lock_guard lock(mutex_);
    in_flight_ -= std::min(records, in_flight_);
    acknowledged_ = std::max(acknowledged_, durable_seq);
    wire::Reply reply;
    reply.durable_seq = acknowledged_;
    reply.time_unix_ns = static_cast<uint64_t>(now_unix_ns);
    // A full reply queue loses nothing: the next acknowledgement says it again.
    (void)sink_->Send(reply);
    if (ended_ && in_flight_ == 0) sink_->Close(OkStatus());
  }
  void StartFrom(uint64_t durable_seq) {
    std::lock_guard lock(mutex_);
    acknowledged_ = durable_seq;
  }

 private:
  const std::shared_ptr<rpc::ReplySink> sink_;
  std::mutex mutex_;  // guards everything below
  uint64_t in_flight_ = 0;
  uint64_t acknowledged_ = 0;
  bool ended_ = false;
};

}  // namespace foreshock::ingest
