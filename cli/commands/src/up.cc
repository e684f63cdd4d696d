// foreshock up
#include "foreshock/cli/up.h"

#include <cstdlib>

#include "commands.h"
#include "common.h"

namespace foreshock::cli {
namespace {

class Up final : public Command {
 public:
  CommandSpec Spec() override {
    return {"up", "Start server and agent on this machine, and stay until Ctrl-C",
            "Data lies under --data, by default $XDG_DATA_HOME/foreshock or ~/.local/share/foreshock. Exit "
            "status 0\n"
            "after a signal; 3 when one of the two ended by itself (nothing is restarted "
            "silently).\n\nExamples:\n"
            "  foreshock up\n  foreshock up --data ./foreshock-data --grpc 127.0.0.1:0 --ready-file up.json",
            [this](ArgSink& sink) {
              sink.Option("--data", &options_.data, "folder for everything that is kept");
              sink.Option("--grpc", &options_.grpc, "the server's gRPC address; port 0: any free one");
              sink.Option("--http", &options_.http,
                          "the server's HTTP address (JSON, /metrics); port 0: any free one");
              sink.Option("--socket", &options_.socket, "the agent's unix socket (default: DATA/agent.sock)");
              sink.Flag("--no-agent", &options_.no_agent, "the server alone");
              sink.Option("--config", &options_.config, "the server's configuration file (YAML)");
              sink.Option("--ready-file", &options_.ready_file,
                          "written when both are ready: pid and addresses as JSON; removed at the end");
              sink.Flag("--json", &options_.json, "print the addresses as JSON");
            }};
  }

  int Run(Context& context) override {
    if (options_.data.empty()) {
      options_.data = DefaultDataFolder(std::getenv("XDG_DATA_HOME"), std::getenv("HOME"));
    }
    options_.program_folder = context.self_folder;
    const Status status = RunUp(options_, context.out, context.err);
    return status.ok() ? kExitOk : Fail(context, status);
  }

 private:
  UpOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeUp() { return std::make_unique<Up>(); }

}  // namespace foreshock::cli
