// foreshock delete RUN --yes, foreshock backup NAME
#include "commands.h"
#include "common.h"
#include "foreshock/cli/render.h"

namespace foreshock::cli {
namespace {

class Delete final : public Command {
 public:
  CommandSpec Spec() override {
    return {"delete", "Delete everything that the server keeps of a run",
            "A run that is going on is refused without --force. Runs with the label `keep` are spared by the "
            "server's\n"
            "--keep-days and --keep-bytes, not by this command.\n\nExamples:\n"
            "  foreshock backup before-cleaning && foreshock delete gpt-7 --yes",
            [this](ArgSink& sink) {
              sink.Positional("RUN", &run_, "the run's name");
              sink.Flag("--yes", &yes_, "needed: what is deleted does not come back");
              sink.Flag("--force", &force_, "also when the run is going on");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    if (!yes_) {
      return Fail(context, Status(Code::kInvalidArgument, "yes: missing: deleting " + run_ +
                                                              " cannot be undone; add --yes to do it"));
    }
    v1::DeleteRunRequest request;
    request.set_run(run_);
    request.set_force(force_);
    request.set_issuer(UserName());
    return AskAndPrint(
        context, server_, [&](Client& client) { return client.DeleteRun(request); },
        [&](const v1::DeleteRunReply&) { context.out << "deleted " << Printable(run_) << "\n"; });
  }

 private:
  std::string run_;
  bool yes_ = false, force_ = false;
  ServerArgs server_;
};

class Backup final : public Command {
 public:
  CommandSpec Spec() override {
    return {"backup", "Have the server copy its whole history into a new folder",
            "The copy is consistent and made while the server works; it lies in the server's "
            "--backup-folder. To restore\n"
            "it, start a foreshockd with --data on it, or on a copy of it.\n\nExamples:\n"
            "  foreshock backup $(date +%F)",
            [this](ArgSink& sink) {
              sink.Positional("NAME", &name_, "name of the new folder");
              server_.Declare(sink);
            }};
  }

  int Run(Context& context) override {
    v1::BackupRequest request;
    request.set_name(name_);
    request.set_issuer(UserName());
    return AskAndPrint(
        context, server_, [&](Client& client) { return client.Backup(request); },
        [&](const v1::BackupReply& reply) {
          context.out << "wrote " << Printable(reply.folder()) << ", " << reply.bytes() << " bytes\n";
        });
  }

 private:
  std::string name_;
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeDelete() { return std::make_unique<Delete>(); }
std::unique_ptr<Command> MakeBackup() { return std::make_unique<Backup>(); }

}  // namespace foreshock::cli
