// `foreshock doctor --model`: what would be watched in a PyTorch model, told by the Python package's own
// doctor. Private.
#pragma once

#include <string>

#include "foreshock/base/result.h"
#include "foreshock/cli/command.h"

namespace foreshock::cli {

// Runs `python` (a path, or a name looked for in PATH) with the module foreshock.doctor over `model`, on this
// process's own standard streams, and waits for it. Gives its exit status: 0 every attention layer would be
// watched, 1 some would not, 2 the model could not be made, 3 (kExitUnreachable) no torch or no package
// foreshock there, said on stderr. kUnavailable when the program could not be started, kIo when a signal
// ended it.
Result<int> RunModelDoctor(Context& context, const std::string& python, const std::string& model, bool json);

}  // namespace foreshock::cli
