// The command line, without its parser's headers: a command declares its arguments, Parse fills them in and
// says which command was asked for. CLI11 stays behind args.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace foreshock::cli {

// Receives the declarations of one command. Targets must outlive Parse; what they hold is the default, which
// --help shows. `flags` is as in "--from" or "-o,--output".
class ArgSink {
 public:
  virtual ~ArgSink() = default;
  virtual void Positional(const std::string& name, std::string* target, const std::string& help) = 0;
  virtual void OptionalPositional(const std::string& name, std::string* target, const std::string& help) = 0;
  // One or more.
  virtual void Positionals(const std::string& name, std::vector<std::string>* target,
                           const std::string& help) = 0;
  virtual void Flag(const std::string& flags, bool* target, const std::string& help) = 0;
  // `environment` names a variable that stands in when the option is not given; empty: none.
  virtual void Option(const std::string& flags, std::string* target, const std::string& help,
                      const std::string& environment = "") = 0;
  virtual void Option(const std::string& flags, std::optional<int64_t>* target, const std::string& help) = 0;
  virtual void Option(const std::string& flags, std::optional<double>* target, const std::string& help) = 0;
  // May be given several times.
  virtual void Option(const std::string& flags, std::vector<int64_t>* target, const std::string& help) = 0;
  virtual void Option(const std::string& flags, std::vector<std::string>* target,
                      const std::string& help) = 0;
  // Everything after "--", or from the first word that is no option on.
  virtual void Rest(std::vector<std::string>* target, const std::string& help) = 0;
};

struct CommandSpec {
  std::string name;
  std::string summary;  // one line
  std::string footer;   // examples, shown at the end of its --help
  std::function<void(ArgSink&)> declare;
};

struct ProgramSpec {
  std::string name;
  std::string description;
  std::string footer;
  std::string version;
  std::vector<CommandSpec> commands;
};

struct ParseOutcome {
  std::optional<size_t> command;  // index into commands; absent: print `text` and exit with `exit_code`
  int exit_code = 0;              // 0 for --help and --version, 2 for what cannot be understood
  std::string text;               // help to print on stdout (0), or the complaint for stderr (2)
};

ParseOutcome Parse(const ProgramSpec& program, int argc, const char* const* argv);

}  // namespace foreshock::cli
