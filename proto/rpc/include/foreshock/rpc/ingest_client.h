// The sending end of Ingest.Stream: one stream for one source. Used by the agent's forwarder and by the SDK's
// grpc:// exporter. gRPC stays behind this header.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "foreshock/base/result.h"
#include "foreshock/wire/codec.h"
#include "foreshock/wire/record.h"

namespace foreshock::rpc {

struct ChannelOptions {
  std::string address;              // host:port
  std::string token;                // bearer token; empty: none
  std::string token_file;           // its first line is the token, read anew for each call; wins over `token`
  std::string ca_file;              // TLS roots; empty with tls: the system's
  std::string cert_file, key_file;  // mTLS; empty: none
  bool tls = false;                 // one of the three files means TLS, too
  unsigned reload_seconds = 30;     // how often the three files are looked at for changes
  size_t max_message_bytes = 16u << 20;
  // A connection with streams on which nothing came for so long is pinged: what stands in between (NAT,
  // balancers) must not take it for dead, and a server that is must be noticed. 5 to 86,400.
  int64_t keepalive_s = 30;
};

// A connection that streams and calls share. Connects lazily and reconnects by itself. Thread-safe.
class Channel {
 public:
  // kInvalidArgument naming the field for an address that is none, files that cannot be used, a keepalive_s
  // out of bounds, or a token that would travel unencrypted to another machine.
  static Result<std::shared_ptr<Channel>> Create(ChannelOptions options);
  virtual ~Channel() = default;
  virtual const ChannelOptions& options() const = 0;
  // The bearer token as it is now; empty: none. kInvalidArgument when its file cannot be read.
  virtual Result<std::string> Token() const = 0;
  // Why no connection comes about, in words that say what to do: tries once by itself, which takes up to a
  // second, and remembers the answer for a few. Ok when it finds nothing wrong.
  virtual Status Diagnose() const = 0;
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

// Opens a stream. `run`, where it is not empty, travels in the call's header foreshock-run, so that a
// balancer can keep a run with its server (HeaderOfRun). Without a connection within `connect_timeout`:
// kUnavailable, or what Channel::Diagnose says.
Result<std::unique_ptr<IngestStream>> OpenIngestStream(const std::shared_ptr<Channel>& channel,
                                                       std::chrono::milliseconds connect_timeout,
                                                       std::string_view run = {});

// The value of that header: the run's name percent-encoded but for its slashes.
std::string HeaderOfRun(std::string_view run);

}  // namespace foreshock::rpc
