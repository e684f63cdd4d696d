#include "foreshock/server/control/control_service.h"

#include "foreshock/rpc/services.h"
#include "foreshock/rpc/status.h"

namespace foreshock::control {
namespace {

template <typename Message>
grpc::Status Give(Result<Message> result, Message* reply) {
  if (!result.ok()) return rpc::ToGrpc(result.status());
  *reply = *std::move(result);
  return grpc::Status::OK;
}

class ControlServiceImpl final : public ControlService, public v1::Control::Service {
 public:
  explicit ControlServiceImpl(Controls* controls) : controls_(*controls) {}
  grpc::Service* service() override { return this; }

  grpc::Status Act(grpc::ServerContext*, const v1::ActRequest* request, v1::ActReply* reply) override {
    return Give(controls_.Act(*request), reply);
  }
  grpc::Status ListActions(grpc::ServerContext*, const v1::ListActionsRequest* request,
                           v1::ListActionsReply* reply) override {
    return Give(controls_.ListActions(*request), reply);
  }
  grpc::Status SetSampling(grpc::ServerContext*, const v1::SetSamplingRequest* request,
                           v1::SetSamplingReply*) override {
    return rpc::ToGrpc(controls_.SetSampling(*request));
  }

 private:
  Controls& controls_;
};

}  // namespace

std::unique_ptr<ControlService> ControlService::Create(Controls* controls) {
  return std::make_unique<ControlServiceImpl>(controls);
}

}  // namespace foreshock::control
