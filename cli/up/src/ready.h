// What foreshockd and foreshock-agent say in their ready files. Private.
#pragma once

#include <string>

#include "foreshock/base/result.h"

namespace foreshock::cli {

// A text member of the one JSON object in a file; kNotFound when it is not there.
Result<std::string> ReadReadyField(const std::string& path, const std::string& field);

}  // namespace foreshock::cli
