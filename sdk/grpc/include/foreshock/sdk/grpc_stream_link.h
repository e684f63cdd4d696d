// One ingest stream straight to a server, for the exporter's background thread: nothing here waits, two
// threads of its own do.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/wire/record.h"

namespace foreshock::sdk {

class GrpcStreamLink {
 public:
  // Begins to connect; the Hello is the stream's first message. All signals are blocked in its threads.
  GrpcStreamLink(std::string target, std::string token, std::string hello);
  // Cancels the stream and waits for its threads: at most kConnectTimeout.
  ~GrpcStreamLink();

  // kResourceExhausted: too much is waiting, try later. kUnavailable: the stream has ended.
  Status Send(wire::RecordType type, std::string payload);
  // Replies that have arrived since the last call, encoded; kUnavailable once the stream has ended and all of
  // them were handed over.
  Status Poll(std::vector<std::string>* replies);
  // Everything that was sent has been taken by the transport.
  bool Drained() const;

  static constexpr std::chrono::milliseconds kConnectTimeout{1000};
  static constexpr size_t kMaxWaitingBytes = size_t{8} << 20;

 private:
  struct Record {
    wire::RecordType type;
    std::string payload;
  };
  void Write();
  void Read(rpc::IngestStream* stream);
  bool NextRecord(Record* record);
  void End(const Status& why);

  const std::string target_, token_, hello_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<Record> waiting_;
  size_t waiting_bytes_ = 0;
  bool writing_ = true;  // something that was taken may not have reached the transport
  bool stopping_ = false;
  bool ended_ = false;
  Status why_;
  std::vector<std::string> replies_;
  std::unique_ptr<rpc::IngestStream> stream_;
  std::thread writer_;
};

}  // namespace foreshock::sdk
