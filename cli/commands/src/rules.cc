// foreshock rules check|test FILE...
#include "foreshock/cli/rules.h"

#include "commands.h"
#include "common.h"

namespace foreshock::cli {
namespace {

class Rules final : public Command {
 public:
  CommandSpec Spec() override {
    return {"rules", "Check files of your own rules, or test rules by scenarios",
            "check: FILE is a file of rules; every error is printed with line and column. test: FILE is a "
            "scenario "
            "file (\"load these series, expect these alerts\"). Neither needs a server.\n"
            "Exit status 0 when all is well, 1 when a scenario failed, 2 when a file is wrong.\n\nExamples:\n"
            "  foreshock rules check mine.yaml\n  foreshock rules test scenarios/*.yaml\n"
            "  foreshock rules test scenario.yaml --rules mine.yaml --verbose",
            [this](ArgSink& sink) {
              sink.Positional("WHAT", &what_, "check or test");
              sink.Positionals("FILE", &options_.files, "files of rules, or scenario files");
              sink.Option("--rules", &options_.rules_path,
                          "test: rules for scenario files that name none of their own");
              sink.Flag("--verbose", &options_.verbose,
                        "test: print what fired in scenarios that passed, too");
              sink.Flag("--json", &options_.json, "one JSON object a line for each file or scenario");
            }};
  }

  int Run(Context& context) override {
    if (what_ == "check") return RunRulesCheck(options_.files, options_.json, context.out, context.err);
    if (what_ == "test") return RunRulesTest(options_, context.out, context.err);
    return Fail(context, Status(Code::kInvalidArgument, "'" + what_ + "': expected check or test"));
  }

 private:
  std::string what_;
  RulesTestOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeRules() { return std::make_unique<Rules>(); }

}  // namespace foreshock::cli
