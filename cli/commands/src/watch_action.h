// Waits for what becomes of an action. Private.
#pragma once

#include <cstdint>
#include <string>

#include "foreshock/base/result.h"
#include "foreshock/cli/client.h"

namespace foreshock::cli {

// The action's record once the trainer has taken or refused it and, where its effect is measured, once that
// is known; or the last record when `seconds` are over. kNotFound when the server does not list it.
Result<v1::ActionRecord> AwaitAction(Client& client, const std::string& run, const std::string& id,
                                     int64_t seconds);

}  // namespace foreshock::cli
