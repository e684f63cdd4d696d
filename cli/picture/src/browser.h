// Runs a program to its end. Private.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::cli {

// Its standard output goes into the file `output`, its complaints nowhere. kUnavailable, with its `name`,
// when it cannot be started, ends with another status than 0, or is not done in time (it and what it started
// are then killed).
Status RunProgram(const std::string& name, const std::vector<std::string>& argv, const std::string& output,
                  std::chrono::milliseconds timeout);

}  // namespace foreshock::cli
