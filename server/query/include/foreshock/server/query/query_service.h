// The gRPC service Query of query.proto.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/query/queries.h"

namespace grpc {
class Service;
}

namespace foreshock::auth {
class Gate;
}

namespace foreshock::query {

// One HTML page about these runs.
using RenderReport = std::function<Result<std::string>(const std::vector<std::string>& runs)>;

struct QueryServiceOptions {
  // Who may read which runs; not owned. Null: everybody everything.
  const auth::Gate* gate = nullptr;
  // ReadSeries, Watch and Report hold a thread until their reader has taken all; more get RESOURCE_EXHAUSTED.
  size_t max_reads = 512;
  size_t max_reads_per_identity = 64;
};

class QueryService {
 public:
  // `queries` must outlive the service. `render` may be empty: Report is UNIMPLEMENTED then. Lists leave out
  // what the caller may not read.
  static std::unique_ptr<QueryService> Create(const Queries* queries, RenderReport render,
                                              const QueryServiceOptions& options = {});
  virtual ~QueryService() = default;
  // For rpc::Server::Start; lives as long as this.
  virtual grpc::Service* service() = 0;
  // Ends running Watch calls, which would hold up the server's stop.
  virtual void Shutdown() = 0;
  virtual uint64_t refused_reads() const = 0;  // above a limit
};

}  // namespace foreshock::query
