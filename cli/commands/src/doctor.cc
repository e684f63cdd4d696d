// foreshock doctor
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "agent_status.h"
#include "commands.h"
#include "common.h"
#include "foreshock/cli/number.h"
#include "foreshock/cli/render.h"
#include "foreshock/json/json.h"
#include "model_doctor.h"

namespace foreshock::cli {
namespace {

// Whether something listens on a unix socket; the reason when nothing does.
Status Listens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Status(Code::kInvalidArgument, "socket: " + std::to_string(path.size()) + " characters, at most " +
                                              std::to_string(sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Status(Code::kIo, std::string("socket: ") + std::strerror(errno));
  const int failed = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int why = errno;
  close(fd);
  return failed == 0 ? OkStatus() : Status(Code::kUnavailable, path + ": " + std::strerror(why));
}

void AddFinding(std::vector<std::string>* findings, const std::string& run, const std::string& text) {
  findings->push_back("run " + run + ": " + text);
}

// What an operator should know of a run: what is not measured, what was lost.
void InspectRun(const v1::Run& run, std::vector<std::string>* findings) {
  if (run.state() == v1::RUN_STATE_SILENT)
    AddFinding(findings, run.run(), "silent: no data and no announced end");
  if (run.import_begun_unix_ns() > 0)
    AddFinding(findings, run.run(),
               "here in part: an import of it runs or broke off; repeat the import, or delete the run");
  for (const v1::Unmonitored& part : run.unmonitored()) {
    AddFinding(findings, run.run(), "unmonitored: " + part.name() + ": " + part.reason());
  }
  for (const v1::Attempt& attempt : run.attempts()) {
    for (const v1::Source& source : attempt.sources()) {
      const std::string rank = "rank " + std::to_string(source.rank()) + " of attempt " + attempt.attempt();
      if (source.dropped() > 0) {
        AddFinding(findings, run.run(), std::to_string(source.dropped()) + " records lost, " + rank);
      }
      if (source.quarantined() > 0) {
        AddFinding(findings, run.run(),
                   std::to_string(source.quarantined()) + " records quarantined, " + rank);
      }
      const double skew = static_cast<double>(source.clock_skew_ns()) * 1e-9;
      if (!(std::abs(skew) <= 60)) {
        AddFinding(findings, run.run(), "clock is off by " + FormatDuration(skew) + ", " + rank);
      }
    }
  }
}

// Work in the background that failed since the server's start.
void InspectCounters(const v1::ServerStatus& status, std::vector<std::string>* findings) {
  static constexpr std::pair<const char*, const char*> kFailures[] = {
      {"store_seal_failures", "frames could not be sealed"},
      {"store_rollup_failures", "steps could not be rolled up"},
      {"store_compaction_failures", "files could not be flushed or compacted"},
      {"upkeep_failures", "deletions or backups failed"},
      {"run_move_failures", "exports or imports of runs failed"}};
  for (const auto& [name, what] : kFailures) {
    const auto it = status.counters().find(name);
    if (it == status.counters().end() || it->second == 0) continue;
    findings->push_back("server: " + std::string(what) + ", " + std::to_string(it->second) +
                        " times since its start; its log says why");
  }
}

class Doctor final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "doctor", "Is everything reachable, is anything lost or not monitored? What of a model would be?",
        "Exit status 0 when all is well, 1 when there are findings, 3 when no server answers.\n"
        "With --model no server is asked: 0 when all its attention layers would be watched, 1 when some\n"
        "would not, 2 when it cannot be made, 3 when there is no Python with torch and the package "
        "foreshock.\n"
        "\nExamples:\n"
        "  foreshock doctor\n  foreshock doctor --agent unix:/run/foreshock/agent.sock\n"
        "  foreshock doctor --json\n  foreshock doctor --model gpt2\n"
        "  foreshock doctor --model train.py:make_model --python .venv/bin/python",
        [this](ArgSink& sink) {
          sink.Option("--agent", &agent_, "the agent's address, unix:PATH", "FORESHOCK_ADDR");
          sink.Option(
              "--model", &model_,
              "say what would be watched in a PyTorch model: MODULE:NAME or FILE.py:NAME (a module, or what "
              "makes one), a folder with a Transformers config.json, or a model type such as llama");
          sink.Option("--python", &python_, "the Python that --model is made by", "FORESHOCK_PYTHON");
          server_.Declare(sink);
        }};
  }

  int Run(Context& context) override {
    if (!model_.empty()) return LookAtModel(context);
    auto client = server_.Connect();
    if (!client.ok()) return Fail(context, client.status());
    std::vector<std::string> findings;
    const Status agent = InspectAgent(&findings);
    const auto status = (*client)->GetStatus();
    if (!status.ok()) {
      if (!server_.json()) PrintAgent(context, agent);
      return Fail(context, status.status());
    }
    if (!agent.ok()) findings.push_back("agent: " + agent.message());
    if (status->health() != "ok") findings.push_back("server: " + status->health());
    InspectCounters(*status, &findings);
    const auto runs = (*client)->ListRuns({});
    if (!runs.ok()) return Fail(context, runs.status());
    for (const v1::Run& run : runs->runs()) InspectRun(run, &findings);
    if (server_.json()) {
      PrintAll(context, *status, findings);
    } else {
      context.out << "server " << server_.server() << ": " << RenderStatus(*status, context.style);
      PrintAgent(context, agent);
      for (const std::string& finding : findings) {
        context.out << context.style(Paint::kYellow, "finding") << "  " << Printable(finding) << "\n";
      }
      if (findings.empty()) context.out << context.style(Paint::kGreen, "all is well") << "\n";
    }
    return findings.empty() ? kExitOk : kExitNegative;
  }

 private:
  int LookAtModel(Context& context) const {
    const Result<int> exit = RunModelDoctor(context, python_, model_, server_.json());
    return exit.ok() ? *exit : Fail(context, exit.status());
  }

  // Ok when it listens, or when no agent is asked for: file: and grpc: go without one.
  Status InspectAgent(std::vector<std::string>* findings) const {
    if (!agent_.starts_with("unix:")) return OkStatus();
    const std::string path = agent_.substr(5);
    FS_RETURN_IF_ERROR(Listens(path));
    FS_ASSIGN_OR_RETURN(const AgentStatus status, ReadAgentStatus(path + ".status.json"));
    for (const std::string& finding : AgentFindings(status)) findings->push_back("agent: " + finding);
    return OkStatus();
  }

  void PrintAgent(Context& context, const Status& agent) const {
    if (!agent_.starts_with("unix:")) {
      context.out << "agent: not asked (--agent unix:PATH or FORESHOCK_ADDR)\n";
    } else {
      context.out << "agent " << Printable(agent_) << ": "
                  << (agent.ok() ? "listens" : Printable(agent.message())) << "\n";
    }
  }

  void PrintAll(Context& context, const v1::ServerStatus& status,
                const std::vector<std::string>& findings) const {
    json::Writer out;
    out.BeginObject().Key("server");
    json::Write(status, &out);
    out.Key("agent").String(agent_).Key("findings").BeginArray();
    for (const std::string& finding : findings) out.String(finding);
    out.EndArray().EndObject();
    context.out << out.text() << "\n";
  }

  std::string agent_, model_, python_ = "python3";
  ServerArgs server_;
};

}  // namespace

std::unique_ptr<Command> MakeDoctor() { return std::make_unique<Doctor>(); }

}  // namespace foreshock::cli
