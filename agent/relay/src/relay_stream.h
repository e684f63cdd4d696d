// One stream of an agent in front: a queue that gRPC's thread fills and a thread of its own that appends to
// the spool.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "foreshock/agent/relay.h"
#include "foreshock/rpc/ingest_service.h"

namespace foreshock::agent {

inline constexpr std::string_view kRelayComponent = "agent/relay";  // of log lines

struct RelayCounters {
  std::atomic<uint64_t> streams{0}, accepted{0}, refused{0}, records{0}, bytes{0}, rejected{0}, stalled{0},
      replies{0};
};

// What a stream tells of itself.
class RelayHub {
 public:
  virtual ~RelayHub() = default;
  // Replies for the source go to this sink from now on; `hello` goes first.
  virtual void Joined(const SourceKey& key, const std::shared_ptr<rpc::ReplySink>& sink,
                      const wire::Reply& hello) = 0;
  virtual void Left(const SourceKey& key, const std::shared_ptr<rpc::ReplySink>& sink) = 0;
  RelayCounters counters;
  std::atomic<bool> stopping{false};
};

class RelayStream final : public rpc::IngestHandler {
 public:
  RelayStream(Spool& spool, RelayHub& hub, const RelayOptions& options, std::string peer,
              std::shared_ptr<rpc::ReplySink> sink);
  ~RelayStream() override;

  void OnRecord(wire::Record record) override;
  void OnEnd() override;

 private:
  struct Item {
    uint64_t seq = 0;
    wire::Record record;
  };

  void OnHello(const std::string& payload);
  void Refuse(const Status& status);
  // Nothing more is taken; the agent in front comes back.
  void Stall(const std::string& why);
  void Reject(const Status& status, uint64_t seq);
  void Run();
  std::deque<Item> TakeBatch();
  // False when the stream is to end.
  bool Append(std::deque<Item> batch);
  Status AppendFront(const std::deque<Item>& batch, size_t count);

  Spool& spool_;
  RelayHub& hub_;
  const RelayOptions& options_;
  const std::string peer_;
  const std::shared_ptr<rpc::ReplySink> sink_;
  // gRPC's own, one call at a time; key_ stands once the thread runs.
  bool closed_ = false;
  bool greeted_ = false;
  SourceKey key_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::deque<Item> queue_;
  size_t queued_bytes_ = 0;
  bool ended_ = false;   // nothing more comes
  bool failed_ = false;  // nothing more is taken
  std::thread thread_;
};

}  // namespace foreshock::agent
