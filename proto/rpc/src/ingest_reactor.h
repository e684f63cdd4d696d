#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>

#include "foreshock/rpc/ingest_service.h"
#include "foreshock/rpc/services.h"

namespace foreshock::rpc {

// Ingest with raw bytes: the handler decodes with proto/wire, without a generated message in between.
class RawIngestService final : public v1::Ingest::WithRawCallbackMethod_Stream<v1::Ingest::Service> {
 public:
  explicit RawIngestService(IngestHandlerFactory* factory) : factory_(factory) {}

 private:
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Stream(
      grpc::CallbackServerContext* context) override;

  IngestHandlerFactory* factory_;
};

}  // namespace foreshock::rpc
