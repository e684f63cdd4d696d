// What foreshockd says in its ready file. Private.
#pragma once

#include <string>

#include "foreshock/base/result.h"

namespace foreshock::cli {

// A port, as member `field` of the one JSON object in a file. kDataLoss when there is none.
Result<int> ReadPort(const std::string& path, const std::string& field);

}  // namespace foreshock::cli
