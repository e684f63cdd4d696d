// The sending end of Ingest.Stream: one stream for one source. Used by the agent's forwarder and by the SDK's
// grpc:// exporter. gRPC stays behind this header.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "foreshock/base/result.h"
#include "foreshock/wire/codec.h"
#include "foreshock/wire/record.h"

namespace foreshock::rpc {

struct ChannelOptions {
  std::string address;              // host:port
  std::string token;                // bearer token; empty: none
  std::string ca_file;              // TLS roots; empty with tls: the system's
  std::string cert_file, key_file;  // mTLS; empty: none
  bool tls = false;
  size_t max_message_bytes = 16u << 20;
};

// A connection that streams and calls share. Connects lazily and reconnects by itself. Thread-safe.
class Channel {
 public:
  static Result<std::shared_ptr<Channel>> Create(ChannelOptions options);
  virtual ~Channel() = default;
  virtual const ChannelOptions& options() const = 0;
};

// One Ingest.Stream call. Write and Read may be called from two threads, each from one at a time. After a
// failure every call fails; make a new stream.
class IngestStream {
 public:
  virtual ~IngestStream() = default;

  // Blocks until the transport has taken the record (flow control), or fails.
  virtual Status Write(wire::RecordType type, std::string_view payload) = 0;
  // Says that nothing more will be written; replies go on until the server closes.
  virtual Status WritesDone() = 0;
  // Blocks until a reply arrives; nullopt when the server has closed the stream in good order.
  virtual Result<std::optional<wire::Reply>> Read() = 0;
  // Makes blocked calls return. Any thread.
  virtual void Cancel() = 0;
};

// Opens a stream; kUnavailable when there is no connection within `connect_timeout`.
Result<std::unique_ptr<IngestStream>> OpenIngestStream(const std::shared_ptr<Channel>& channel,
                                                       std::chrono::milliseconds connect_timeout);

}  // namespace foreshock::rpc
