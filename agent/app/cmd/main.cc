#include <cstdlib>

#include "commands.h"
#include "process.h"

int main(int argc, char** argv) {
  using namespace foreshock::agent;
  FillStandardDescriptors();
  // gRPC would put lines of its own into the log, e.g. for every handshake that fails.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  int exit_code = kExitOk;
  const auto line = ParseCommandLine(argc, argv, &exit_code);
  if (!line.has_value()) return exit_code;
  switch (line->command) {
    case CommandLine::Command::kSpool:
      return ShowSpool(*line);
    case CommandLine::Command::kDiscard:
      return DiscardRun(*line);
    case CommandLine::Command::kRun:
      break;
  }
  return RunAgent(*line);
}
