// The gRPC service Control of control.proto.
#pragma once

#include <memory>

#include "foreshock/server/control/controls.h"
#include "foreshock/server/upkeep/upkeep.h"

namespace grpc {
class Service;
}

namespace foreshock::control {

class ControlService {
 public:
  // Both must outlive the service.
  static std::unique_ptr<ControlService> Create(Controls* controls, upkeep::Upkeep* upkeep);
  virtual ~ControlService() = default;
  // For rpc::Server::Start; lives as long as this.
  virtual grpc::Service* service() = 0;
};

}  // namespace foreshock::control
