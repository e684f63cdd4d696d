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

std::string IssuerOr(const std::string& issuer) { return issuer.empty() ? "operator" : issuer; }

class ControlServiceImpl final : public ControlService, public v1::Control::Service {
 public:
  ControlServiceImpl(Controls* controls, upkeep::Upkeep* upkeep) : controls_(*controls), upkeep_(*upkeep) {}
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

  grpc::Status DeleteRun(grpc::ServerContext*, const v1::DeleteRunRequest* request,
                         v1::DeleteRunReply*) override {
    return rpc::ToGrpc(upkeep_.DeleteRun(request->run(), request->force(), IssuerOr(request->issuer())));
  }
  grpc::Status Backup(grpc::ServerContext*, const v1::BackupRequest* request,
                      v1::BackupReply* reply) override {
    const auto info = upkeep_.Backup(request->name(), IssuerOr(request->issuer()));
    if (!info.ok()) return rpc::ToGrpc(info.status());
    reply->set_folder(info->folder);
    reply->set_bytes(info->bytes);
    return grpc::Status::OK;
  }

 private:
  Controls& controls_;
  upkeep::Upkeep& upkeep_;
};

}  // namespace

std::unique_ptr<ControlService> ControlService::Create(Controls* controls, upkeep::Upkeep* upkeep) {
  return std::make_unique<ControlServiceImpl>(controls, upkeep);
}

}  // namespace foreshock::control
