#include "foreshock/rpc/status.h"

namespace foreshock::rpc {

grpc::Status ToGrpc(const Status& status) {
  grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  switch (status.code()) {
    case Code::kOk:
      return grpc::Status::OK;
    case Code::kInvalidArgument:
      code = grpc::StatusCode::INVALID_ARGUMENT;
      break;
    case Code::kNotFound:
      code = grpc::StatusCode::NOT_FOUND;
      break;
    case Code::kAlreadyExists:
      code = grpc::StatusCode::ALREADY_EXISTS;
      break;
    case Code::kFailedPrecondition:
      code = grpc::StatusCode::FAILED_PRECONDITION;
      break;
    case Code::kOutOfRange:
      code = grpc::StatusCode::OUT_OF_RANGE;
      break;
    case Code::kPermissionDenied:
      code = grpc::StatusCode::PERMISSION_DENIED;
      break;
    case Code::kResourceExhausted:
      code = grpc::StatusCode::RESOURCE_EXHAUSTED;
      break;
    case Code::kUnavailable:
      code = grpc::StatusCode::UNAVAILABLE;
      break;
    case Code::kDataLoss:
      code = grpc::StatusCode::DATA_LOSS;
      break;
    case Code::kUnimplemented:
      code = grpc::StatusCode::UNIMPLEMENTED;
      break;
    case Code::kIo:
    case Code::kInternal:
      code = grpc::StatusCode::INTERNAL;
      break;
  }
  return grpc::Status(code, status.message());
}

Status FromGrpc(const grpc::Status& status) {
  Code code = Code::kInternal;
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return OkStatus();
    case grpc::StatusCode::INVALID_ARGUMENT:
      code = Code::kInvalidArgument;
      break;
    case grpc::StatusCode::NOT_FOUND:
      code = Code::kNotFound;
      break;
    case grpc::StatusCode::ALREADY_EXISTS:
      code = Code::kAlreadyExists;
      break;
    case grpc::StatusCode::FAILED_PRECONDITION:
      code = Code::kFailedPrecondition;
      break;
    case grpc::StatusCode::OUT_OF_RANGE:
      code = Code::kOutOfRange;
      break;
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      code = Code::kPermissionDenied;
      break;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      code = Code::kResourceExhausted;
      break;
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNAVAILABLE:
      code = Code::kUnavailable;
      break;
    case grpc::StatusCode::DATA_LOSS:
      code = Code::kDataLoss;
      break;
    case grpc::StatusCode::UNIMPLEMENTED:
      code = Code::kUnimplemented;
      break;
    default:
      break;
  }
  return Status(code, status.error_message());
}

}  // namespace foreshock::rpc
