#include "commands.h"
#include "process.h"

int main(int argc, char** argv) {
  using namespace foreshock::agent;
  FillStandardDescriptors();
  int exit_code = kExitOk;
  const auto line = ParseCommandLine(argc, argv, &exit_code);
  if (!line.has_value()) return exit_code;
  return line->command == CommandLine::Command::kSpool ? ShowSpool(*line) : RunAgent(*line);
}
