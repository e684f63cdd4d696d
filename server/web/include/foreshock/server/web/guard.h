// Who may ask what by HTTP: one guard before all routes, whoever adds them.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "foreshock/server/auth/gate.h"
#include "foreshock/server/http/routes.h"

namespace foreshock::web {

// Call it before the routes are added. GET needs the scope read and anything else control: for the run that
// the path or the query names, else for all runs; lists of runs and alerts show what the caller may read.
// Everybody gets the page's own files and /healthz. 401 without a good token, 403 with one that does not do.
// Adds GET /api/v1/control: {"token_configured":bool,"token_given":bool,"token_known":bool}, whether acting
// needs a token, whether the request's may act, and whether it is one at all. `gate` must outlive the routes.
//
// Where no token is needed, a page of somebody else's in a browser of this machine must not get in: the Host
// that is asked for must be an address, "localhost" or in `names` (a name that an attacker makes resolve to
// 127.0.0.1 is neither), and what changes something must not come from a page of another origin. 403
// otherwise.
void AddGuard(const auth::Gate* gate, std::set<std::string> names, http::Routes* routes);

// "https://foreshock.example:7070/x" is "foreshock.example"; "[::1]:7070" is "::1".
std::string HostOfUrl(std::string_view url);

// What a request brings along.
auth::Credentials CredentialsOf(const http::Request& request);

}  // namespace foreshock::web
