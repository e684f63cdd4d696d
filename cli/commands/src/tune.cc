// foreshock tune RUNS... --labels FILE
#include "foreshock/cli/tune.h"

#include "commands.h"
#include "common.h"

namespace foreshock::cli {
namespace {

class Tune final : public Command {
 public:
  CommandSpec Spec() override {
    return {"tune", "Lead and false alarms of every rule over runs whose fate is known",
            "RUNS are recordings; the labels say what became of each (docs/rules/tune.md). Needs no "
            "server.\n\nExamples:\n"
            "  foreshock tune runs/*.fsk --labels labels.json\n"
            "  foreshock tune runs/*.fsk --labels labels.json --rules mine.yaml --runs",
            [this](ArgSink& sink) {
              sink.Positionals("RUNS", &options_.recordings, "recordings");
              sink.Option("--labels", &options_.labels_path, "JSON file: what became of each run");
              sink.Option("--rules", &options_.rules_path,
                          "YAML file of rules to judge beside the built-in ones");
              sink.Flag("--runs", &options_.runs, "also a row for each run");
              sink.Flag("--constants", &options_.constants,
                        "also qk_runaway with other inner constants; takes several times as long");
              sink.Option("--bootstrap", &bootstrap_, "resamples behind each interval");
              sink.Option("--seed", &seed_, "of the resampling");
              sink.Flag("--json", &options_.json, "print JSON");
            }};
  }

  int Run(Context& context) override {
    if (options_.labels_path.empty()) {
      return Fail(context, Status(Code::kInvalidArgument,
                                  "labels: missing, --labels FILE says what became of each run"));
    }
    const Status status = CheckRange("bootstrap", *bootstrap_, 40, 1'000'000);
    if (!status.ok()) return Fail(context, status);
    options_.bootstrap = *bootstrap_;
    options_.seed = static_cast<uint64_t>(*seed_);
    return RunTune(options_, context.style, context.out, context.err);
  }

 private:
  TuneOptions options_;
  std::optional<int64_t> bootstrap_ = 2000, seed_ = 1;
};

}  // namespace

std::unique_ptr<Command> MakeTune() { return std::make_unique<Tune>(); }

}  // namespace foreshock::cli
