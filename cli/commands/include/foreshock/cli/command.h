// One command of the program: what it declares and what it does.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "foreshock/cli/args.h"
#include "foreshock/cli/style.h"

namespace foreshock::cli {

// Exit statuses, the same for every command.
enum ExitCode : int {
  kExitOk = 0,
  kExitNegative = 1,     // not there, refused, or the answer is no
  kExitUsage = 2,        // the command line or an input file is wrong
  kExitUnreachable = 3,  // no server answers
};

// What a command runs in.
struct Context {
  std::ostream& out;
  std::ostream& err;
  Style style;              // of `out`
  std::string self_folder;  // where the program's file lies: foreshockd and foreshock-agent are beside it
};

class Command {
 public:
  virtual ~Command() = default;
  // The declarations write into this object, which must outlive Parse.
  virtual CommandSpec Spec() = 0;
  // After Parse. Returns an ExitCode; complaints are on `err`.
  virtual int Run(Context& context) = 0;
};

// Every command, in the order of the help.
std::vector<std::unique_ptr<Command>> AllCommands();

}  // namespace foreshock::cli
