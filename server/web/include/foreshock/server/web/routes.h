// The HTTP side of the server: docs/api.md describes what it answers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/server/http/routes.h"
#include "foreshock/server/query/queries.h"

namespace foreshock::web {

// GET /api/v1/runs, /runs/{run}, /runs/{run}/series, /runs/{run}/step/{step}, /runs/{run}/alerts,
// /runs/{run}/events, /alerts, /status, /catalogue; and GET /healthz. `queries` must outlive the routes.
void AddQueryRoutes(const query::Queries* queries, http::Routes* routes);

// GET /metrics: the text that `scrape` gives.
void AddMetricsRoute(std::function<std::string()> scrape, http::Routes* routes);

// GET /report?run=A&run=B: the page that `render` gives.
void AddReportRoute(std::function<Result<std::string>(const std::vector<std::string>& runs)> render,
                    http::Routes* routes);

}  // namespace foreshock::web
