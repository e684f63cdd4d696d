#include "foreshock/cli/program.h"

#include <string_view>

namespace foreshock::cli {
namespace {

#ifndef FORESHOCK_VERSION
#define FORESHOCK_VERSION "unknown"
#endif

constexpr const char* kFooter =
    "Exit status: 0 done, 1 not there or the answer is no, 2 wrong usage or input, 3 no server answers.\n"
    "FORESHOCK_SERVER names the server (default 127.0.0.1:7071). Colour only on a terminal; NO_COLOR turns "
    "it off.\n"
    "\n"
    "Examples:\n"
    "  foreshock up                           # server and agent on this machine\n"
    "  foreshock watch gpt-7                  # follow a run\n"
    "  foreshock heads gpt-7 qk_sigma1        # layers x heads\n"
    "  foreshock replay run.jsonl             # the rules over a recording, no server needed";

}  // namespace

int RunProgram(int argc, const char* const* argv, Context& context) {
  const std::vector<std::unique_ptr<Command>> commands = AllCommands();
  ProgramSpec program;
  program.name = "foreshock";
  program.description = "Foreshock warns before a transformer training run collapses.";
  program.footer = kFooter;
  program.version = FORESHOCK_VERSION;
  for (const auto& command : commands) program.commands.push_back(command->Spec());
  const ParseOutcome outcome = Parse(program, argc, argv);
  if (outcome.command) return commands[*outcome.command]->Run(context);
  (outcome.exit_code == 0 ? context.out : context.err) << outcome.text;
  const bool option_first = argc > 2 && std::string_view(argv[1]).starts_with("-");
  if (outcome.exit_code != 0 && option_first)
    context.err << "Options come after the command: foreshock COMMAND --option ...\n";
  return outcome.exit_code;
}

}  // namespace foreshock::cli
