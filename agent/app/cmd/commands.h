// The commands of foreshock-agent; each returns the exit code.
#pragma once

#include "command_line.h"

namespace foreshock::agent {

int RunAgent(const CommandLine& line);
int ShowSpool(const CommandLine& line);

}  // namespace foreshock::agent
