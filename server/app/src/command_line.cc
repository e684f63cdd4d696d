#include "foreshock/server/app/command_line.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "foreshock/base/advice.h"
#include "foreshock/base/file.h"
#include "foreshock/base/heap.h"
#include "foreshock/base/socket.h"
#include "foreshock/server/app/app.h"
#include "ready_line.h"

namespace foreshock::app {
namespace {

constexpr int kStopped = 0, kCannotStart = 1, kBadArguments = 2;

int Fail(int code, const Status& status) {
  std::fprintf(stderr, "foreshockd: %s\n", status.ToString().c_str());
  if (const std::string advice = AdviceFor(status); !advice.empty())
    std::fprintf(stderr, "foreshockd: %s\n", advice.c_str());
  return code;
}

struct Arguments {
  AppOptions options;
  std::string config_file;
  std::string ready_file;
  std::string log_level;
  std::vector<std::string> on_critical;
};

void Declare(CLI::App& cli, Arguments* a) {
  AppOptions& o = a->options;
  cli.add_option("--config", a->config_file,
                 "YAML file of options (docs/configuration.md); flags win over it");
  cli.add_option("--data", o.data_folder, "folder of the history, created when missing")
      ->capture_default_str();
  cli.add_option("--grpc", o.grpc_address, "HOST:PORT for agents and the command line")
      ->capture_default_str();
  cli.add_option("--http", o.http_address, "HOST:PORT for JSON, metrics and reports")->capture_default_str();
  cli.add_option("--alertmanager", o.alertmanager_url,
                 "URL of a Prometheus Alertmanager that gets the alerts");
  cli.add_option("--webhook", o.webhook_url, "URL that gets the alerts as JSON");
  cli.add_option("--slack", o.slack_url, "Slack-compatible webhook that gets the alerts as text");
  cli.add_option("--webhook-template", o.webhook_template_file,
                 "file that makes the JSON for --webhook (docs/notifications.md)");
  cli.add_option("--slack-template", o.slack_template_file, "file that makes the text for --slack");
  cli.add_option("--remote-write", o.remote_write.url,
                 "URL of a Prometheus remote_write receiver that gets the signals of every run");
  cli.add_option("--external-url", o.external_url, "how people reach --http, for links in alerts");
  cli.add_option("--control-token-file", o.control_token_file,
                 "file whose first line is the token needed to act by HTTP and on the web page");
  cli.add_option("--tls-cert", o.tls_cert_file, "PEM certificate (with its chain): both ports talk TLS");
  cli.add_option("--tls-key", o.tls_key_file, "its PEM key");
  cli.add_option("--tls-client-ca", o.tls_client_ca_file,
                 "PEM roots: gRPC clients need a certificate that leads to one (mTLS)");
  cli.add_option("--tokens", o.tokens_file,
                 "file of tokens (foreshock token create): calls need one; SIGHUP reads it again");
  cli.add_option(
      "--rules", o.rules_file,
      "YAML file of rules beside the built-in ones (docs/rules/user_rules.md); SIGHUP reads it again");
  cli.add_option("--rule-actions", o.rule_actions,
                 "what `action:` of such a rule does: off, dry_run (logged, not sent) or on")
      ->capture_default_str();
  cli.add_option("--on-critical", a->on_critical,
                 "RULE=ACTION: what a built-in rule asks for when it turns critical; may be repeated");
  cli.add_flag("--allow-rule-stop", o.allow_rule_stop, "with --rule-actions on, rules may stop a run, too");
  cli.add_option("--keep-days", o.keep_days, "delete runs of which nothing came for so many days (0: never)");
  cli.add_option("--keep-bytes", o.keep_bytes,
                 "while the history is larger, delete the run that is quiet the longest (0: never); 500GiB")
      ->transform(CLI::AsSizeValue(false));
  cli.add_option("--backup-folder", o.backup_folder,
                 "where `foreshock backup NAME` writes copies of the history");
  cli.add_option("--log-level", a->log_level, "debug, info (default), warning, error or off");
  cli.add_option("--ready-file", a->ready_file,
                 "file that gets the line with the ports once the server listens");
  cli.add_flag("--metrics-per-head", o.metrics_per_head, "one time series per head in /metrics: many");
  cli.set_version_flag("--version", FORESHOCK_VERSION);
}

// Flags first, to learn of the file; then the file; then the flags again, over it.
int Parse(int argc, char** argv, Arguments* arguments) {
  for (int round = 0; round < 2; ++round) {
    CLI::App cli("Foreshock's server: keeps the history of training runs and warns before one collapses.",
                 "foreshockd");
    Declare(cli, arguments);
    try {
      cli.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
      return cli.exit(e) == 0 ? kStopped : kBadArguments;
    }
    if (round == 1 || arguments->config_file.empty()) break;
    const std::string path = arguments->config_file;
    arguments->options = AppOptions{};
    const Status status = ReadConfigFile(path, &arguments->options);
    if (!status.ok()) return Fail(kBadArguments, status);
  }
  for (const std::string& text : arguments->on_critical) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return Fail(kBadArguments,
                  Status(Code::kInvalidArgument, "--on-critical: '" + text + "', expected RULE=ACTION"));
    }
    arguments->options.on_critical[text.substr(0, equals)] = text.substr(equals + 1);
  }
  if (!arguments->log_level.empty()) {
    const Result<LogLevel> level = ParseLogLevel(arguments->log_level);
    if (!level.ok()) return Fail(kBadArguments, level.status().Annotate("--log-level"));
    arguments->options.log_level = *level;
  }
  return -1;
}

bool HasFilesToReload(const AppOptions& options) {
  return !options.rules_file.empty() || !options.tokens_file.empty() || !options.tls_cert_file.empty();
}

// Blocks the signals in every thread that starts from here on, so that only WaitForStop sees them.
// Where there is nothing to read again SIGHUP keeps its usual meaning.
sigset_t BlockSignals(bool reload) {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (reload) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// SIGHUP reads rules, tokens and certificates again. After the first other signal a second one ends the
// process at once.
void WaitForStop(const sigset_t& signals, App* app) {
  int signal_number = 0;
  while (sigwait(&signals, &signal_number) != 0 || signal_number == SIGHUP) {
    if (signal_number != SIGHUP) continue;
    app->ReloadRules().IgnoreError();  // both are logged and counted
    app->ReloadSecurity().IgnoreError();
  }
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  LogInfo("server/app", "stopping", {{"signal", signal_number}});
}

}  // namespace

int RunServer(int argc, char** argv) {
  // gRPC would put a line to stderr for every handshake that fails, in its own format.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  TuneHeap();
  LiftFileLimit();
  Arguments arguments;
  const int parsed = Parse(argc, argv, &arguments);
  if (parsed >= 0) return parsed;
  SetLogLevel(arguments.options.log_level);
  const sigset_t signals = BlockSignals(HasFilesToReload(arguments.options));
  auto app = App::New(arguments.options);
  if (!app.ok()) return Fail(kBadArguments, app.status());
  Status status = (*app)->Start();
  if (!status.ok()) return Fail(kCannotStart, status);
  const std::string line = ReadyLine((*app)->grpc_port(), (*app)->http_port(), arguments.options.data_folder);
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
  if (!arguments.ready_file.empty()) {
    status = WriteFileAtomically(PosixFileSystem(), arguments.ready_file, line);
    if (!status.ok()) return Fail(kCannotStart, status.Annotate("--ready-file"));
  }
  WaitForStop(signals, app->get());
  (*app)->Stop();
  return kStopped;
}

}  // namespace foreshock::app
