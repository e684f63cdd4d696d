// The HTTP side of control: docs/api.md describes it.
#pragma once

#include <string>

#include "foreshock/server/control/controls.h"
#include "foreshock/server/http/routes.h"
#include "foreshock/server/upkeep/upkeep.h"

namespace foreshock::web {

// GET and POST /api/v1/runs/{run}/actions, POST /api/v1/runs/{run}/sampling, GET /api/v1/control. Posts must
// be application/json, which a page of another site cannot send without being asked first. Where
// `control_token` is not empty, posts must carry it ("Authorization: Bearer TOKEN") and are refused with 403
// otherwise; /api/v1/control says whether there is a token and whether the request carries it. `controls`
// must outlive the routes.
void AddControlRoutes(control::Controls* controls, const std::string& control_token, http::Routes* routes);

// POST /api/v1/runs/{run}/delete, POST /api/v1/backups; guarded likewise. `upkeep` must outlive the routes.
void AddUpkeepRoutes(upkeep::Upkeep* upkeep, const std::string& control_token, http::Routes* routes);

}  // namespace foreshock::web
