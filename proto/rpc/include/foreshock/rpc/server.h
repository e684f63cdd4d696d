// A gRPC server with Foreshock's services. Query and Control are generated interfaces (proto/messages,
// rpc/services.h); Ingest is the raw one of ingest_service.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/rpc/ingest_service.h"

namespace grpc {
class Service;
}

namespace foreshock::rpc {

struct ServerOptions {
  std::string address = "127.0.0.1:0";  // port 0: any free one
  std::string cert_file, key_file;      // TLS when set
  std::string client_ca_file;           // mTLS when set
  size_t max_message_bytes = 16u << 20;
};

class Server {
 public:
  // Listens at once. `ingest` may be null. `services` are not owned. Both must outlive the Server.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, IngestHandlerFactory* ingest,
                                               const std::vector<grpc::Service*>& services);
  virtual ~Server() = default;  // stops
  virtual int port() const = 0;
  // Refuses new calls, gives running ones `grace_ms`, then cancels them.
  virtual void Stop(int grace_ms) = 0;
};

}  // namespace foreshock::rpc
