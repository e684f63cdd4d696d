// Status of base and of gRPC, one to the other. Includes a small gRPC header.
#pragma once

#include <grpcpp/support/status.h>

#include "foreshock/base/result.h"

namespace foreshock::rpc {

grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

}  // namespace foreshock::rpc
