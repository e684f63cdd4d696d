// What could not be measured, and why.
#pragma once

#include <string>

namespace foreshock::sdk {

struct TrackerFailure {
  std::string name;    // e.g. "weights on CUDA device 0"
  std::string reason;  // what users read behind "unmonitored: "
};

}  // namespace foreshock::sdk
