// The HTTP side of control: docs/api.md describes it.
#pragma once

#include "foreshock/server/control/controls.h"
#include "foreshock/server/http/routes.h"
#include "foreshock/server/upkeep/upkeep.h"

namespace foreshock::web {

// GET and POST /api/v1/runs/{run}/actions, POST /api/v1/runs/{run}/sampling. Posts must be application/json,
// which a page of another site cannot send without being asked first. Who may act is the guard's affair
// (guard.h). `controls` must outlive the routes.
void AddControlRoutes(control::Controls* controls, http::Routes* routes);

// POST /api/v1/runs/{run}/delete, POST /api/v1/backups; likewise. `upkeep` must outlive the routes.
void AddUpkeepRoutes(upkeep::Upkeep* upkeep, http::Routes* routes);

}  // namespace foreshock::web
