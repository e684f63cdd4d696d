// What a daemon does to its process.
#pragma once

#include <string>

#include "foreshock/base/result.h"

namespace foreshock::agent {

// Opens /dev/null for descriptors 0 to 2 that are closed, so that a socket never gets one of their numbers
// and log lines never go into it. Whoever spawned this may have passed none.
void FillStandardDescriptors();

// Sends stderr to the end of a file.
Status RedirectStderr(const std::string& path);

// Blocks SIGTERM, SIGINT and SIGHUP in this thread and those it starts. Before any thread.
void BlockStopSignals();
// Waits up to timeout_ms for one of them: its number, or 0.
int WaitForStopSignal(int timeout_ms);

}  // namespace foreshock::agent
