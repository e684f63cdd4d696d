// A gRPC server with Foreshock's services. Query and Control are generated interfaces (proto/messages,
// rpc/services.h); Ingest is the raw one of ingest_service.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/refusals.h"
#include "foreshock/base/result.h"
#include "foreshock/rpc/ingest_service.h"

namespace grpc {
class Service;
}

namespace foreshock::rpc {

struct ServerOptions {
  std::string address = "127.0.0.1:0";  // port 0: any free one
  // TLS when set, and mTLS: clients need a certificate that leads to client_ca_file. The files are read again
  // when they change, every reload_seconds; connections that stand keep what they have.
  std::string cert_file, key_file, client_ca_file;
  unsigned reload_seconds = 10;
  size_t max_message_bytes = 16u << 20;  // of what clients send; longer ones get RESOURCE_EXHAUSTED
  int max_calls_per_connection = 2048;   // at a time; more wait at the client
  int handshake_timeout_ms = 20'000;     // for TLS and HTTP/2 to be agreed on
  int idle_connection_ms = 15 * 60'000;  // without a call: told to go away
  // At a time, fewer where the process may open few files. While half of them are free, or no other host has
  // any, a host has what it asks for; beyond, its share (base/shares). One too many is reset before anything
  // is read of it.
  size_t max_connections = 16'384;
  // Told of connections that were reset because of it, by host, at most once a minute and reason; on a thread
  // of the server's. Empty: nobody is.
  std::function<void(const Refusals::Report& report)> tell_refused;
};

class Server {
 public:
  // Listens at once. kInvalidArgument naming cert_file, key_file or client_ca_file; kUnavailable where the
  // address cannot be had. `ingest` may be null. `services` are not owned. Both must outlive the Server.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, IngestHandlerFactory* ingest,
                                               const std::vector<grpc::Service*>& services);
  virtual ~Server() = default;  // stops
  virtual int port() const = 0;
  // Connections that were reset because of max_connections.
  virtual uint64_t refused_connections() const = 0;
  // Refuses new calls, gives running ones `grace_ms`, then cancels them.
  virtual void Stop(int grace_ms) = 0;
};

}  // namespace foreshock::rpc
