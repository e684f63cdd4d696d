// Forwards one source: a thread that sends and, while a stream is open, one that reads replies.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "backoff.h"
#include "foreshock/agent/forward.h"
#include "foreshock/rpc/ingest_client.h"
#include "server_state.h"

namespace foreshock::agent {

class SourceStream {
 public:
  SourceStream(Spool& spool, std::shared_ptr<rpc::Channel> channel, const ForwarderOptions& options,
               SourceKey key, ServerState& state, const Forwarder::Downlink& downlink, uint64_t seed);
  ~SourceStream();  // Stop, then waits

  // Makes the thread end soon.
  void Stop();
  // The thread has ended: the source is gone from the spool, refused, or Stop.
  bool finished() const { return finished_.load(); }
  // Asked once finished: the server refused this Hello, and why.
  bool refused() const { return refused_; }
  const std::string& hello() const { return hello_; }
  const Status& reason() const { return reason_; }

 private:
  enum class End { kGone, kStopped, kBroken, kRefused };

  void Run();
  // One stream from open to end.
  End RunOnce();
  Result<std::unique_ptr<rpc::IngestStream>> Open();
  Status Greet(rpc::IngestStream& stream, const std::string& hello);
  End SendRecords(rpc::IngestStream& stream, const std::string& hello);
  // Lets the server end the stream in good order.
  void SayGoodbye(rpc::IngestStream& stream);
  Status SendRecord(rpc::IngestStream& stream, SpoolRecord record);
  bool TooLong(const SpoolRecord& record);
  void GiveUp(uint64_t seq);
  void AcknowledgeGivenUp();
  void ReadReplies(rpc::IngestStream& stream);
  void TakeReply(const wire::Reply& reply);
  void Break(const Status& status);
  bool WaitBeforeRetry();

  Spool& spool_;
  const std::shared_ptr<rpc::Channel> channel_;
  const ForwarderOptions& options_;
  const SourceKey key_;
  ServerState& state_;
  const Forwarder::Downlink& downlink_;
  Backoff backoff_;
  std::atomic<bool> finished_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> progressed_{false};  // the server acknowledged something in this stream
  std::atomic<bool> error_logged_{false};

  // The sending thread's own: where the server is, and whether records behind that will not come.
  uint64_t last_sent_seq_ = 0;
  bool lost_some_ = false;
  bool refused_ = false;  // with hello_, for reason_; read by others once finished
  std::string hello_;
  Status reason_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  rpc::IngestStream* stream_ = nullptr;  // to be cancelled by Stop
  bool greeted_ = false;
  bool broken_ = false;
  Status broken_status_;
  uint64_t acked_seq_ = 0;   // by the server
  uint64_t server_seq_ = 0;  // what the server said at its last greeting that it has
  // Records that the server can never take. Each is over once everything sent before it is acknowledged.
  struct GivenUp {
    uint64_t sent_before = 0;
    uint64_t seq = 0;
  };
  std::deque<GivenUp> given_up_;
  uint64_t given_up_through_ = 0;
  uint64_t max_message_bytes_ = 0;  // what the server takes, 0: unknown

  std::thread thread_;
};

}  // namespace foreshock::agent
