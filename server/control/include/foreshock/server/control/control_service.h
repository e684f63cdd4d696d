// The gRPC service Control of control.proto.
#pragma once

#include <chrono>
#include <memory>

#include "foreshock/server/control/controls.h"
#include "foreshock/server/control/silence_api.h"
#include "foreshock/server/move/run_mover.h"
#include "foreshock/server/upkeep/upkeep.h"

namespace grpc {
class Service;
}

namespace foreshock::auth {
class Gate;
}

namespace foreshock::control {

class ControlService {
 public:
  // All must outlive the service. The gate says who may act on which runs; null: everybody on all. Without
  // a mover ExportRun and ImportRun are UNIMPLEMENTED; one whose caller takes or sends nothing for
  // `idle_limit` is cancelled, because few can be under way.
  static std::unique_ptr<ControlService> Create(
      Controls* controls, upkeep::Upkeep* upkeep, const SilenceApi* silences,
      const auth::Gate* gate = nullptr, move::RunMover* mover = nullptr,
      std::chrono::milliseconds idle_limit = std::chrono::minutes(1));
  virtual ~ControlService() = default;
  // For rpc::Server::Start; lives as long as this.
  virtual grpc::Service* service() = 0;
};

}  // namespace foreshock::control
