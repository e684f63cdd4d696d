// Who makes a call, of a generated service's method. Includes gRPC's headers: for .cc files only.
#pragma once

#include <grpcpp/server_context.h>

#include "foreshock/rpc/ingest_service.h"

namespace foreshock::rpc {

PeerInfo PeerOf(const grpc::ServerContextBase& context);

}  // namespace foreshock::rpc
