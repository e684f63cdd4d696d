// The gRPC channel inside a Channel, for callers of the generated Query and Control stubs.
#pragma once

#include <grpcpp/channel.h>

#include <memory>

#include "foreshock/rpc/ingest_client.h"

namespace foreshock::rpc {

std::shared_ptr<grpc::Channel> GrpcChannel(const Channel& channel);

}  // namespace foreshock::rpc
