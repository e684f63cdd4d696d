#include "foreshock/cli/up.h"

#include <unistd.h>

#include <filesystem>

#include "foreshock/base/advice.h"
#include "foreshock/base/file.h"
#include "foreshock/cli/supervisor.h"
#include "foreshock/json/writer.h"
#include "ready.h"

namespace foreshock::cli {
namespace {

constexpr size_t kMostSocketPath = 107;  // sockaddr_un

struct Addresses {
  std::string grpc, http, agent;
};

ChildSpec ServerSpec(const UpOptions& options) {
  ChildSpec spec;
  spec.name = "foreshockd";
  spec.ready_file = options.data + "/foreshockd.ready";
  spec.argv = {options.program_folder + "/foreshockd",
               "--data",
               options.data + "/server",
               "--grpc",
               options.grpc,
               "--http",
               options.http,
               "--ready-file",
               spec.ready_file};
  if (!options.config.empty()) spec.argv.insert(spec.argv.end(), {"--config", options.config});
  return spec;
}

ChildSpec AgentSpec(const UpOptions& options, const std::string& server) {
  ChildSpec spec;
  spec.name = "foreshock-agent";
  spec.ready_file = options.socket + ".status.json";  // written once it listens
  spec.argv = {options.program_folder + "/foreshock-agent",
               "--socket",
               options.socket,
               "--spool",
               options.data + "/spool",
               "--server",
               server,
               "--status",
               spec.ready_file};
  return spec;
}

// Where to reach a server that listens on HOST:PORT and got `port`.
std::string Reachable(const std::string& listen, int port) {
  std::string host = listen.substr(0, listen.rfind(':'));
  if (host.empty() || host == "0.0.0.0") host = "127.0.0.1";
  if (host == "[::]") host = "[::1]";
  return host + ":" + std::to_string(port);
}

std::string AsJson(const UpOptions& options, const Addresses& addresses) {
  json::Writer out;
  out.BeginObject().Key("pid").Int(getpid()).Key("data").String(options.data);
  out.Key("grpc").String(addresses.grpc).Key("http").String(addresses.http).Key("agent");
  if (addresses.agent.empty()) {
    out.Null();
  } else {
    out.String(addresses.agent);
  }
  out.EndObject();
  return out.Take();
}

std::string AsText(const UpOptions& options, const Addresses& addresses) {
  std::string text =
      "server   " + addresses.grpc + " (gRPC), http://" + addresses.http + " (JSON, /metrics)\n";
  if (!addresses.agent.empty()) text += "agent    " + addresses.agent + "\n";
  text += "data     " + options.data + "\n";
  const std::string trainer = addresses.agent.empty() ? "grpc://" + addresses.grpc : addresses.agent;
  return text + "A trainer finds them with FORESHOCK_ADDR=" + trainer + "; Ctrl-C stops both.\n";
}

// Whole or not there: waiters look for the file.
Status WriteReadyFile(const std::string& path, const std::string& text) {
  if (WriteFileAtomically(PosixFileSystem(), path, text + "\n").ok()) return OkStatus();
  return Status(Code::kIo, "ready-file: " + path + ": cannot be written");
}

Status Prepare(UpOptions* options) {
  std::error_code code;
  std::filesystem::create_directories(options->data, code);
  if (code) {
    const bool denied = code == std::errc::permission_denied;
    const std::string advice = AdviceFor(Status(denied ? Code::kPermissionDenied : Code::kIo, ""));
    return Status(Code::kIo, "data: " + options->data + ": " + code.message() +
                                 (advice.empty() ? "" : "; " + advice + "; --data names another"));
  }
  options->data = std::filesystem::absolute(options->data).lexically_normal().string();
  if (options->socket.empty()) options->socket = options->data + "/agent.sock";
  if (!options->no_agent && options->socket.size() > kMostSocketPath) {
    return Status(Code::kInvalidArgument, "socket: " + options->socket + ": " +
                                              std::to_string(options->socket.size()) +
                                              " characters, at most " + std::to_string(kMostSocketPath) +
                                              "; give a shorter one with --socket");
  }
  return OkStatus();
}

Result<Addresses> StartAll(const UpOptions& options, Supervisor* supervisor) {
  Addresses addresses;
  const ChildSpec server = ServerSpec(options);
  FS_RETURN_IF_ERROR(supervisor->Start(server));
  FS_ASSIGN_OR_RETURN(const int grpc_port, ReadPort(server.ready_file, "grpc"));
  FS_ASSIGN_OR_RETURN(const int http_port, ReadPort(server.ready_file, "http"));
  addresses.grpc = Reachable(options.grpc, grpc_port);
  addresses.http = Reachable(options.http, http_port);
  if (options.no_agent) return addresses;
  FS_RETURN_IF_ERROR(supervisor->Start(AgentSpec(options, addresses.grpc)));
  addresses.agent = "unix:" + options.socket;
  return addresses;
}

}  // namespace

std::string DefaultDataFolder(const char* xdg_data_home, const char* home) {
  if (xdg_data_home != nullptr && *xdg_data_home != '\0') return std::string(xdg_data_home) + "/foreshock";
  if (home != nullptr && *home != '\0') return std::string(home) + "/.local/share/foreshock";
  return "./foreshock-data";
}

Status RunUp(const UpOptions& given, std::ostream& out, std::ostream& err) {
  UpOptions options = given;
  FS_RETURN_IF_ERROR(Prepare(&options));
  Supervisor supervisor({}, err);
  FS_ASSIGN_OR_RETURN(const Addresses addresses, StartAll(options, &supervisor));
  if (!options.ready_file.empty()) {
    FS_RETURN_IF_ERROR(WriteReadyFile(options.ready_file, AsJson(options, addresses)));
  }
  out << (options.json ? AsJson(options, addresses) + "\n" : AsText(options, addresses)) << std::flush;
  const Status status = supervisor.Wait();
  if (!options.ready_file.empty()) unlink(options.ready_file.c_str());
  supervisor.Stop();
  return status;
}

}  // namespace foreshock::cli
