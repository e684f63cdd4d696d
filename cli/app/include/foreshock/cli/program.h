// The `foreshock` program without its process: arguments in, exit status out.
#pragma once

#include "foreshock/cli/command.h"

namespace foreshock::cli {

// `argv` as main gets it.
int RunProgram(int argc, const char* const* argv, Context& context);

}  // namespace foreshock::cli
