// The receiving end of Ingest.Stream. gRPC stays behind this header; a server registers the service through
// RegisterIngest (rpc/server.h).
#pragma once

#include <memory>
#include <string>

#include "foreshock/base/result.h"
#include "foreshock/wire/record.h"

namespace foreshock::rpc {

// What a handler answers with. Thread-safe; may outlive the stream, whose end makes it do nothing.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // Queues a reply; never blocks. False when the stream is over or too many replies wait (1,024).
  virtual bool Send(const wire::Reply& reply) = 0;
  // Ends the stream, after what is queued, with a status the sender sees.
  virtual void Close(const Status& status) = 0;
};

struct PeerInfo {
  std::string address;
  std::string token;     // bearer token of the call; empty: none
  std::string identity;  // of the client certificate; empty: none
};

// One per stream; calls come one at a time, in order, on gRPC's threads.
class IngestHandler {
 public:
  virtual ~IngestHandler() = default;
  // A record as it came. Return soon: the next record of this stream waits, which is the flow control.
  virtual void OnRecord(wire::Record record) = 0;
  // No more records: the sender is done, or gone. Called once, last. The stream stays open for replies until
  // the handler closes the sink or the sender hangs up, so a handler closes it once nothing more is to be
  // said.
  virtual void OnEnd() = 0;
};

class IngestHandlerFactory {
 public:
  virtual ~IngestHandlerFactory() = default;
  virtual std::unique_ptr<IngestHandler> NewStream(const PeerInfo& peer, std::shared_ptr<ReplySink> sink) = 0;
};

}  // namespace foreshock::rpc
