// foreshock import LOG RECORDING
#include "foreshock/cli/import.h"

#include "commands.h"
#include "common.h"

namespace foreshock::cli {
namespace {

class Import final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "import", "Turn a past run's log into a recording that replay and tune read",
        "LOG: CSV, JSON lines, a Hugging Face trainer_state.json, or a TensorBoard event file. RECORDING: "
        "text when it "
        "ends in .jsonl, else framed. Exit status 2 when the log cannot be read; then nothing is written.\n\n"
        "Examples:\n"
        "  foreshock import log.csv run.fsk\n  foreshock import trainer_state.json run.jsonl --run gpt-7\n"
        "  foreshock import log.csv run.fsk --step batch --map nll=loss --map 'peak[0,3]=logit_max[0,3]'",
        [this](ArgSink& sink) {
          sink.Positional("LOG", &from_, "what another tool wrote");
          sink.Positional("RECORDING", &to_, "the file to write");
          sink.Option("--run", &options_.run, "name of the run (default: the log's file name)");
          sink.Option("--format", &format_, "auto, csv, jsonl, trainer_state or tfevents");
          sink.Option("--step", &options_.step_column,
                      "the column that counts steps (default: step, iteration, ...)");
          sink.Option("--map", &options_.map,
                      "COLUMN=SIGNAL or COLUMN=SIGNAL[LAYER,HEAD], `COLUMN=` leaves it out; may be repeated");
          sink.Option("--head-dim", &head_dim_, "of the model, when the log has values of heads");
          sink.Flag("--json", &options_.json, "say what was taken as one JSON object");
        }};
  }

  int Run(Context& context) override {
    const auto format = ParseLogFormat(format_);
    if (!format.ok()) return Fail(context, format.status());
    const Status range = CheckRange("head-dim", head_dim_.value_or(0), 0, 65'536);
    if (!range.ok()) return Fail(context, range);
    options_.format = *format;
    options_.head_dim = static_cast<uint32_t>(head_dim_.value_or(0));
    return RunImport(from_, to_, options_, context.out, context.err);
  }

 private:
  std::string from_, to_, format_ = "auto";
  std::optional<int64_t> head_dim_;
  ImportOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeImport() { return std::make_unique<Import>(); }

}  // namespace foreshock::cli
