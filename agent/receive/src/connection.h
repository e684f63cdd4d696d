// One trainer's connection: its own thread reads, appends to the spool and answers.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "attempts.h"
#include "foreshock/agent/receive.h"
#include "foreshock/wire/record.h"
#include "unix_socket.h"

namespace foreshock::agent {

class Connection;

inline constexpr std::string_view kReceiveComponent = "agent/receive";  // of log lines

// What connections share. Owned by the receiver, which outlives them.
class ConnectionHub {
 public:
  virtual ~ConnectionHub() = default;
  // The connection has said Hello: it takes over from an older one of the same process, and gets the replies
  // that wait for it.
  virtual void Joined(const SourceKey& key, Connection* connection) = 0;
  virtual void Left(const SourceKey& key, Connection* connection) = 0;

  struct Counters {
    std::atomic<uint64_t> accepted{0}, refused{0}, refused_users{0}, records{0}, bytes{0}, damaged{0},
        rejected{0}, dropped_by_trainers{0}, stalled{0}, abandoned{0}, replies{0};
  };
  Counters counters;
};

class Connection {
 public:
  Connection(Descriptor socket, Spool& spool, Attempts& attempts, ConnectionHub& hub,
             const ReceiverOptions& options);
  ~Connection();

  // The thread's body: until the trainer hangs up, Close, or damage.
  void Run();

  // Any thread: queues a reply. False when too many wait.
  bool Send(const wire::Reply& reply);
  // Any thread: makes Run return soon.
  void Close();
  bool finished() const { return finished_.load(); }

 private:
  void Serve();
  bool PollOnce(int64_t timeout_ms);
  bool ReadRecords();
  bool TakeRecord(wire::Record record);
  bool TakeHello(std::string payload);
  bool CheckHello(const wire::Hello& hello);
  void TakeData(wire::Record record);
  bool AppendBatch();
  Status AppendFront(size_t count);
  void RejectFront(const Status& status);
  void Acknowledge(uint64_t durable_seq);
  void SendError(const Status& status, uint64_t seq, bool final);
  bool FlushOutgoing();
  bool Stalled(const Status& status);

  const Descriptor socket_;
  const Descriptor event_;
  Spool& spool_;
  Attempts& attempts_;
  ConnectionHub& hub_;
  const ReceiverOptions& options_;
  PeerCredentials peer_;

  // The thread's own.
  wire::RecordParser parser_;
  bool greeted_ = false;
  bool gone_ = false;  // the trainer hung up
  wire::Hello hello_;
  SourceKey key_;
  struct Pending {
    uint64_t seq;
    wire::Record record;
  };
  std::vector<Pending> batch_;
  size_t batch_bytes_ = 0;
  uint64_t durable_seq_ = 0;
  int64_t stalled_since_ns_ = 0;  // 0: the spool takes records
  std::string incoming_;

  std::mutex mutex_;  // guards outgoing_
  std::string outgoing_;
  std::atomic<bool> closing_{false};
  std::atomic<bool> finished_{false};
};

}  // namespace foreshock::agent
