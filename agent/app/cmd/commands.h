// The commands of foreshock-agent; each returns the exit code.
#pragma once

#include "command_line.h"

namespace foreshock::agent {

int RunAgent(const CommandLine& line);
int ShowSpool(const CommandLine& line);
// Gives up what a run has in the spool of an agent that is stopped, and keeps a record of it: who, when, why,
// what.
int DiscardRun(const CommandLine& line);

}  // namespace foreshock::agent
