// foreshock replay FILE
#include "foreshock/cli/replay.h"

#include "commands.h"
#include "common.h"
#include "foreshock/server/detect/rule_info.h"

namespace foreshock::cli {
namespace {

class Replay final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "replay", "Run the rules over a recording, as the server would have live",
        "Needs no server. Exit status 0 also when alerts fired, 2 when the file cannot be "
        "read.\n\nExamples:\n"
        "  foreshock replay run.jsonl\n  foreshock replay run.fsk --json\n"
        "  foreshock replay run.jsonl --disable loss_spike\n  foreshock replay run.jsonl --rules mine.yaml",
        [this](ArgSink& sink) {
          sink.Positional("FILE", &options_.path, "a recording: text (.jsonl) or framed");
          sink.Option("--disable", &options_.disabled_rules, "leave this rule out; may be repeated");
          sink.Option("--rules", &options_.rules_path,
                      "YAML file of rules to run beside the built-in ones (docs/rules/user_rules.md)");
          sink.Flag("--json", &options_.json, "one JSON object a line for each alert event");
        }};
  }

  int Run(Context& context) override {
    for (const std::string& rule : options_.disabled_rules) {
      if (detect::FindRule(rule) != nullptr) continue;
      std::string known;
      for (const detect::RuleInfo& info : detect::BuiltInRules()) known.append(" ").append(info.name);
      return Fail(context,
                  Status(Code::kInvalidArgument, "disable: '" + rule + "': no such rule; there are" + known));
    }
    return RunReplay(options_, context.out, context.err);
  }

 private:
  ReplayOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeReplay() { return std::make_unique<Replay>(); }

}  // namespace foreshock::cli
