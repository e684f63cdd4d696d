// The built-in web page: runs with their health, one run's charts, alerts and actions. Files of its own, made
// part of the program at build time; it loads nothing from elsewhere and asks the JSON API for everything it
// shows.
#pragma once

#include "foreshock/server/http/routes.h"

namespace foreshock::web {

// GET / (the page) and GET /ui/{file} (its scripts, styles and the charting library; 404 for any other name).
void AddPageRoutes(http::Routes* routes);

}  // namespace foreshock::web
