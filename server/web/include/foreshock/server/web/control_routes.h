// The HTTP side of control: docs/api.md describes it.
#pragma once

#include "foreshock/server/control/controls.h"
#include "foreshock/server/http/routes.h"

namespace foreshock::web {

// GET and POST /api/v1/runs/{run}/actions, POST /api/v1/runs/{run}/sampling. Posts must be application/json,
// which a page of another site cannot send without being asked first. `controls` must outlive the routes.
void AddControlRoutes(control::Controls* controls, http::Routes* routes);

}  // namespace foreshock::web
