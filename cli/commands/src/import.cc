// foreshock import LOG [RECORDING]
#include "foreshock/cli/import.h"

#include <cstdlib>

#include "archive_file.h"
#include "commands.h"
#include "common.h"

namespace foreshock::cli {
namespace {

class Import final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "import", "Bring a past run's log or an exported run into a server, or a log into a recording",
        "LOG: CSV, JSON lines, a Hugging Face trainer_state.json, or a TensorBoard event file; or an archive "
        "that\n"
        "`foreshock export` wrote: the run as it was on its server, numbers, alerts and all. It is looked "
        "through\n"
        "first, nothing is judged anew, and what the server has already is left alone, so that it may be "
        "repeated. "
        "RECORDING: "
        "text when it\n"
        "ends in .jsonl, else framed. Without RECORDING, or with --server, the run goes straight to the "
        "server; it\n"
        "is judged there like a live one and then finished, and nobody is notified of its alerts (a silence "
        "of\n"
        "the run, 15 minutes; --notify leaves it out). A run of that name that another sender made is left "
        "alone.\n"
        "Exit status 1 when the server refuses, 2 when the log cannot be read (then nothing is written), 3 "
        "when no\n"
        "server answers.\n\n"
        "Examples:\n  foreshock import log.csv --run gpt-6\n"
        "  foreshock import gpt-6.fsar --server b:7071\n  foreshock import log.csv run.fsk\n  foreshock "
        "import trainer_state.json run.jsonl --run gpt-7\n"
        "  foreshock import log.csv run.fsk --step batch --map nll=loss --map 'peak[0,3]=logit_max[0,3]'",
        [this](ArgSink& sink) {
          sink.Positional("LOG", &from_, "what another tool wrote");
          sink.OptionalPositional("RECORDING", &to_, "the file to write (default: none, into the server)");
          sink.Option("--run", &options_.run, "name of the run (default: the log's file name)");
          sink.Option("--format", &format_, "auto, csv, jsonl, trainer_state or tfevents");
          sink.Option("--step", &options_.step_column,
                      "the column that counts steps (default: step, iteration, ...)");
          sink.Option("--map", &options_.map,
                      "COLUMN=SIGNAL or COLUMN=SIGNAL[LAYER,HEAD], `COLUMN=` leaves it out; may be repeated");
          sink.Option("--head-dim", &head_dim_, "of the model, when the log has values of heads");
          sink.Flag("--notify", &notify_, "let the server notify people of the past run's alerts");
          server_.LeaveUnnamed();
          server_.Declare(sink);
        }};
  }

  int Run(Context& context) override {
    if (IsArchive(from_)) return ImportArchive(context);
    const auto format = ParseLogFormat(format_);
    if (!format.ok()) return Fail(context, format.status());
    const Status range = CheckRange("head-dim", head_dim_.value_or(0), 0, 65'536);
    if (!range.ok()) return Fail(context, range);
    options_.format = *format;
    options_.head_dim = static_cast<uint32_t>(head_dim_.value_or(0));
    options_.json = server_.json();
    SendImported send;
    if (to_.empty() || ServerWasNamed()) send = [this](const Imported& imported) { return Send(imported); };
    const int status = RunImport(from_, to_, options_, send, context.out, context.err);
    if (status == kExitUnreachable) AdviseServer(context);
    return status;
  }

 private:
  int ImportArchive(Context& context) {
    if (!to_.empty() || !options_.run.empty() || !options_.map.empty() || !options_.step_column.empty() ||
        head_dim_) {
      return Fail(context,
                  Status(Code::kInvalidArgument,
                         "an archive is imported as it is: RECORDING, --run, --step, --map and --head-dim "
                         "are for logs"));
    }
    const auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    Progress progress(context.err, "imported");
    const auto reply = SendArchive(from_, **client, &progress);
    progress.End();
    if (!reply.ok()) return Fail(context, reply.status());
    server_.json() ? PrintJson(context, *reply) : PrintImported(context, *reply);
    return kExitOk;
  }

  // By the flag: the variable alone does not make an import into a file go to a server, too.
  bool ServerWasNamed() const {
    const char* variable = std::getenv("FORESHOCK_SERVER");
    return !server_.server().empty() && (variable == nullptr || server_.server() != std::string(variable));
  }

  Status Send(const Imported& imported) {
    FS_ASSIGN_OR_RETURN(const auto client, server_.Connect());
    const std::string& run = std::get<wire::Hello>(imported.items.front()).run;
    FS_RETURN_IF_ERROR(CheckFree(run, *client));
    if (!notify_) FS_RETURN_IF_ERROR(Silence(run, *client));
    return client->SendRecording(imported.items);
  }

  // Nobody's, or an import's that is sent again: imported processes are numbered like their attempts.
  static Status CheckFree(const std::string& run, Client& client) {
    const auto there = client.GetRun(run);
    if (!there.ok()) return there.status().code() == Code::kNotFound ? OkStatus() : there.status();
    for (const v1::Attempt& attempt : there->attempts()) {
      for (const v1::Source& source : attempt.sources()) {
        if (std::to_string(source.incarnation()) == attempt.attempt()) continue;
        return Status(Code::kAlreadyExists,
                      "run: '" + run + "' is there already, from a trainer; name another with --run");
      }
    }
    return OkStatus();
  }

  static Status Silence(const std::string& run, Client& client) {
    v1::CreateSilenceRequest request;
    request.mutable_silence()->set_run(run);
    request.mutable_silence()->set_author(UserName());
    request.mutable_silence()->set_comment("import of a past run");
    request.set_seconds(kSilentSeconds);
    const auto made = client.CreateSilence(request);
    return made.ok() ? OkStatus() : made.status().Annotate("silencing the import (--notify leaves it out)");
  }

  static constexpr double kSilentSeconds = 900;

  std::string from_, to_, format_ = "auto";
  std::optional<int64_t> head_dim_;
  bool notify_ = false;
  ImportOptions options_;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeImport() { return std::make_unique<Import>(); }

}  // namespace foreshock::cli
