// The gRPC service Query of query.proto.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/query/queries.h"

namespace grpc {
class Service;
}

namespace foreshock::query {

// One HTML page about these runs.
using RenderReport = std::function<Result<std::string>(const std::vector<std::string>& runs)>;

class QueryService {
 public:
  // `queries` must outlive the service. `render` may be empty: Report is UNIMPLEMENTED then.
  static std::unique_ptr<QueryService> Create(const Queries* queries, RenderReport render);
  virtual ~QueryService() = default;
  // For rpc::Server::Start; lives as long as this.
  virtual grpc::Service* service() = 0;
  // Ends running Watch calls, which would hold up the server's stop.
  virtual void Shutdown() = 0;
};

}  // namespace foreshock::query
