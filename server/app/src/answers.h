// The half of the server that listens and answers: gRPC and HTTP.
#pragma once

#include <memory>

#include "foreshock/base/clock.h"
#include "foreshock/rpc/server.h"
#include "foreshock/server/app/options.h"
#include "foreshock/server/auth/listen.h"
#include "foreshock/server/control/control_service.h"
#include "foreshock/server/export/exporter.h"
#include "foreshock/server/http/server.h"
#include "foreshock/server/query/query_service.h"
#include "history.h"
#include "security.h"

namespace foreshock::app {

// Members in the order in which they start; they end in the reverse one.
struct Answers {
  std::unique_ptr<query::Queries> queries;
  std::unique_ptr<query::QueryService> query_service;
  std::unique_ptr<control::SilenceApi> silence_api;
  std::unique_ptr<control::ControlService> control_service;
  std::unique_ptr<exporter::Exporter> exporter;
  std::unique_ptr<http::Server> http;
  std::unique_ptr<rpc::Server> grpc;

  // Takes no more requests; running ones get `grace_ms`.
  void Stop(int grace_ms);
};

// Everything or nothing. `history` and `security` must outlive the result.
Result<std::unique_ptr<Answers>> StartAnswers(const AppOptions& options, const auth::HostPort& http_address,
                                              const Clock& clock, History& history, Security& security);

}  // namespace foreshock::app
