// The HTTP side of silences, acknowledgements and the audit trail: docs/api.md describes it.
#pragma once

#include "foreshock/server/control/silence_api.h"
#include "foreshock/server/http/routes.h"

namespace foreshock::web {

// GET and POST /api/v1/silences, POST /api/v1/silences/{id}/expire, POST /api/v1/runs/{run}/acknowledge, GET
// /api/v1/audit. Posts as those of AddControlRoutes. `api` must outlive the routes.
void AddSilenceRoutes(const control::SilenceApi* api, http::Routes* routes);

}  // namespace foreshock::web
