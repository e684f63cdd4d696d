#include "common.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "foreshock/base/catalogue.h"
#include "foreshock/json/json.h"

namespace foreshock::cli {
namespace {

int ExitOf(Code code) {
  switch (code) {
    case Code::kOk:
      return kExitOk;
    case Code::kInvalidArgument:
    case Code::kOutOfRange:
    case Code::kIo:
    case Code::kDataLoss:
      return kExitUsage;
    case Code::kUnavailable:
      return kExitUnreachable;
    default:
      return kExitNegative;
  }
}

}  // namespace

int Fail(Context& context, const Status& status) {
  context.out.flush();
  context.err << "foreshock: " << Printable(status.ToString()) << "\n";
  if (status.code() == Code::kUnavailable && status.message().starts_with("server ")) AdviseServer(context);
  return ExitOf(status.code());
}

void AdviseServer(Context& context) {
  context.err << "Start one with 'foreshock up', or name one: --server HOST:PORT or FORESHOCK_SERVER (its "
                 "gRPC port, "
                 "7071 unless\nit was told another; the web page has a port of its own).\n";
}

void ServerArgs::Declare(ArgSink& sink) {
  sink.Option("--server", &options_.server, "the server's gRPC address, host:port", "FORESHOCK_SERVER");
  sink.Option("--token-file", &options_.token_file, "file whose first line is the bearer token",
              "FORESHOCK_TOKEN_FILE");
  sink.Option("--token", &options_.token, "bearer token; other users of this machine can see it here",
              "FORESHOCK_TOKEN");
  sink.Flag("--tls", &options_.tls, "talk TLS, trusting the system's roots; the next three mean TLS, too");
  sink.Option("--tls-ca,--ca-file", &options_.ca_file,
              "PEM file of the roots that the server's certificate leads to", "FORESHOCK_TLS_CA");
  sink.Option("--tls-cert,--cert-file", &options_.cert_file, "PEM file of this client's certificate",
              "FORESHOCK_TLS_CERT");
  sink.Option("--tls-key,--key-file", &options_.key_file, "PEM file of this client's key",
              "FORESHOCK_TLS_KEY");
  sink.Option("--timeout-ms", &timeout_ms_, "longest wait for an answer, in milliseconds");
  sink.Flag("--json", &json_, "print JSON");
}

Result<std::unique_ptr<Client>> ServerArgs::ConnectTo(const std::string& server) const {
  ServerArgs other = *this;
  other.options_.server = server;
  return other.Connect();
}

Result<std::unique_ptr<Client>> ServerArgs::Connect() const {
  const int64_t timeout_ms = timeout_ms_.value_or(10'000);
  FS_RETURN_IF_ERROR(CheckRange("timeout-ms", timeout_ms, 1, 3'600'000));
  ClientOptions options = options_;
  options.timeout_ms = static_cast<int>(timeout_ms);
  if (options.server.empty()) options.server = ClientOptions().server;
  return Client::Create(options);
}

std::string UserName() {
  const char* user = std::getenv("USER");
  return user != nullptr && *user != '\0' ? user : "uid " + std::to_string(getuid());
}

void PrintJson(Context& context, const google::protobuf::Message& message) {
  context.out << json::ToJson(message) << "\n";
}

Status CheckRange(const std::string& field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return OkStatus();
  return Status(Code::kInvalidArgument, field + ": " + std::to_string(value) + ": expected " +
                                            std::to_string(least) + " to " + std::to_string(most));
}

Result<double> ParseDuration(const std::string& field, const std::string& text) {
  constexpr std::pair<char, double> kUnits[] = {
      {'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86'400}, {'w', 7 * 86'400.0}};
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  for (const auto& [unit, seconds] : kUnits) {
    const bool good = error == std::errc() && at + 1 == end && *at == unit && value > 0 && value < 1e6;
    if (good) return value * seconds;
  }
  return Status(Code::kInvalidArgument,
                field + ": '" + text + "': expected a length of time such as 90s, 15m, 2h or 3d");
}

Result<std::map<std::string, std::string>> ParseLabels(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> labels;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return Status(Code::kInvalidArgument, "label: '" + text + "': expected NAME=VALUE");
    }
    labels[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return labels;
}

Status CheckSignal(const std::string& name) {
  if (FindSignal(name) != nullptr) return OkStatus();
  std::string close;
  for (const SignalInfo& info : SignalCatalogue()) {
    if (info.name.find(name) == std::string_view::npos) continue;
    close.append(close.empty() ? " Did you mean " : ", ").append(info.name);
  }
  if (!close.empty()) close += "?";
  return Status(Code::kInvalidArgument,
                "signal: '" + name + "': unknown; `foreshock catalogue` lists all." + close);
}

}  // namespace foreshock::cli
