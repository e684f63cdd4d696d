#include "command_line.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

namespace foreshock::agent {
namespace {

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string DefaultSocket() {
  if (::getuid() == 0) return "/run/foreshock/agent.sock";
  const std::string runtime = FromEnvironment("XDG_RUNTIME_DIR");
  if (!runtime.empty()) return runtime + "/foreshock/agent.sock";
  return "/tmp/foreshock-" + std::to_string(::getuid()) + "/agent.sock";
}

std::string DefaultSpool() {
  if (::getuid() == 0) return "/var/lib/foreshock/spool";
  const std::string state = FromEnvironment("XDG_STATE_HOME");
  if (!state.empty()) return state + "/foreshock/spool";
  return FromEnvironment("HOME") + "/.local/state/foreshock/spool";
}

void StripUnixPrefix(std::string* path) {
  if (path->starts_with("unix:")) path->erase(0, 5);
}

// A token on the command line would be seen by everybody on the node: it comes from a file or the
// environment.
void AddServerOptions(CLI::App& app, ForwarderOptions& forwarder) {
  app.add_option("--server", forwarder.address,
                 "Server to forward to; without one everything stays in the spool. Several with commas "
                 "between: each run "
                 "goes to one of them, by its name")
      ->envname("FORESHOCK_SERVER")
      ->type_name("HOST:PORT");
  app.add_option("--token-file", forwarder.token_file,
                 "File whose first line is the bearer token, read anew for each stream (or: FORESHOCK_TOKEN)")
      ->envname("FORESHOCK_TOKEN_FILE")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  app.add_option("--keepalive-s", forwarder.keepalive_s,
                 "A quiet connection to the server is pinged so often: less than what a balancer or NAT in "
                 "between takes for "
                 "dead")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{5}, int64_t{86'400}))
      ->type_name("SECONDS");
  app.add_flag("--tls", forwarder.tls, "Talk TLS to the server; the next three mean TLS, too");
  app.add_option("--tls-ca,--ca-file", forwarder.ca_file,
                 "Roots that the server's certificate must lead to [system's]")
      ->envname("FORESHOCK_TLS_CA")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  app.add_option("--tls-cert,--cert-file", forwarder.cert_file, "This agent's certificate, for mTLS")
      ->envname("FORESHOCK_TLS_CERT")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  app.add_option("--tls-key,--key-file", forwarder.key_file,
                 "Its key; the three are read again when they change")
      ->envname("FORESHOCK_TLS_KEY")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
}

// Be a relay.
void AddRelayOptions(CLI::App& app, RelayOptions& relay) {
  app.add_option(
         "--listen-grpc", relay.address,
         "Also take the streams of other agents here (their --server); beyond loopback with the next three")
      ->envname("FORESHOCK_LISTEN_GRPC")
      ->type_name("HOST:PORT");
  app.add_option("--listen-cert", relay.cert_file, "Certificate shown to them")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  app.add_option("--listen-key", relay.key_file, "Its key")->check(CLI::ExistingFile)->type_name("FILE");
  app.add_option("--listen-client-ca", relay.client_ca_file, "CA that their certificates must lead to")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
}

}  // namespace

std::optional<CommandLine> ParseCommandLine(int argc, char** argv, int* exit_code) {
  CommandLine line;
  AgentOptions& agent = line.agent;
  agent.socket_path = DefaultSocket();
  agent.spool_dir = DefaultSpool();
  agent.version = FORESHOCK_VERSION;
  agent.forwarder.token = FromEnvironment("FORESHOCK_TOKEN");

  CLI::App app{
      "Foreshock's agent: takes measurements from the trainers of this node on a unix socket, keeps them in "
      "a "
      "spool on disk and forwards them to the server."};
  app.set_version_flag("--version", FORESHOCK_VERSION);
  app.add_option("--socket,--listen", agent.socket_path, "Unix socket for trainers, PATH or unix:PATH")
      ->capture_default_str()
      ->type_name("PATH");
  AddServerOptions(app, agent.forwarder);
  AddRelayOptions(app, agent.relay);
  app.add_option(
         "--allow-user", agent.receiver.allowed_uids,
         "Only trainers of this user id, of root and of the agent's own user; may be repeated [all that the "
         "socket's group lets in]")
      ->type_name("UID");
  app.add_option("--max-connections-per-user", agent.receiver.max_connections_per_user,
                 "Most trainers of one user at a time")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app.add_option("--spool", agent.spool_dir, "Folder of the spool; one agent at a time")
      ->capture_default_str()
      ->type_name("DIR");
  app.add_option("--spool-limit-bytes", agent.spool.limit_bytes,
                 "Most bytes in the spool; at the limit trainers drop their oldest frames and count them. "
                 "16GiB, 500MB ...")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("16GiB")
      ->type_name("BYTES");
  app.add_option("--status", agent.status_path, "Status file, written every second [SOCKET.status.json]")
      ->type_name("FILE");
  app.add_flag("!--no-gpus", agent.device.enabled, "Do not ask the driver (NVML) for the health of GPUs");
  app.add_option("--idle-exit-s", line.idle_exit_s,
                 "End after so many seconds without trainers and without anything to forward; 0: never")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->type_name("SECONDS");
  app.add_option("--log-level", line.log_level, "debug, info, warning, error or off")
      ->capture_default_str()
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->type_name("LEVEL");
  app.add_option("--log-file", line.log_file, "Append log lines here instead of writing them to stderr")
      ->type_name("FILE");
  app.footer(
      "Exit codes: 0 stopped by SIGTERM or SIGINT, or idle; 1 failure; 2 wrong usage; 3 already running.");

  CLI::App* spool =
      app.add_subcommand("spool", "Show what a spool holds, also while an agent uses it, and end");
  spool->add_option("--spool", agent.spool_dir, "Folder of the spool")
      ->capture_default_str()
      ->type_name("DIR");
  spool->add_flag("--json", line.json, "As one JSON object");
  spool
      ->add_option("--discard-run", line.discard_run,
                   "Give up what this run has in the spool, for good; the agent must be stopped")
      ->type_name("RUN");
  spool->add_option("--reason", line.reason, "Why, for the record in SPOOL/discarded.jsonl")
      ->type_name("TEXT");
  app.require_subcommand(0, 1);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? kExitOk : kExitUsage;
    return std::nullopt;
  }
  if (spool->parsed()) {
    line.command = line.discard_run.empty() ? CommandLine::Command::kSpool : CommandLine::Command::kDiscard;
  }
  StripUnixPrefix(&agent.socket_path);
  return line;
}

}  // namespace foreshock::agent
