// What the commands share: options of every command that asks the server, complaints, exit statuses. Private.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/cli/client.h"
#include "foreshock/cli/command.h"

namespace google::protobuf {
class Message;
}

namespace foreshock::cli {

// Prints "foreshock: MESSAGE" and gives the exit status that goes with the code.
int Fail(Context& context, const Status& status);
// What to do about a server that does not answer.
void AdviseServer(Context& context);

// --server, --token, TLS, --timeout-ms and --json.
class ServerArgs {
 public:
  void Declare(ArgSink& sink);
  Result<std::unique_ptr<Client>> Connect() const;
  // The same to another server.
  Result<std::unique_ptr<Client>> ConnectTo(const std::string& server) const;
  // Before Declare: there is no default server, so that server() tells whether one was named. Connect goes to
  // the default all the same.
  void LeaveUnnamed() { options_.server.clear(); }
  bool json() const { return json_; }
  const std::string& server() const { return options_.server; }

 private:
  ClientOptions options_;
  std::optional<int64_t> timeout_ms_ = 10'000;
  bool json_ = false;
};

// One JSON object, one line.
void PrintJson(Context& context, const google::protobuf::Message& message);

// Asks the server, `ask(client)`, and prints its answer: as JSON where that is wanted, else `print(answer)`
// does. The exit status.
template <typename Ask, typename Print>
int AskAndPrint(Context& context, const ServerArgs& server, const Ask& ask, const Print& print) {
  const auto client = server.Connect();
  if (!client.ok()) return Fail(context, client.status());
  const auto reply = ask(**client);
  if (!reply.ok()) return Fail(context, reply.status());
  if (server.json()) {
    PrintJson(context, *reply);
  } else {
    print(*reply);
  }
  return kExitOk;
}

// "layer: -1: 0 to 4095" unless the value lies within.
Status CheckRange(const std::string& field, int64_t value, int64_t least, int64_t most);

// Who asks, for the record: $USER, else "uid N".
std::string UserName();
// "90s", "15m", "2h", "3d" or "1w", in seconds; kInvalidArgument naming the field.
Result<double> ParseDuration(const std::string& field, const std::string& text);
// "NAME=VALUE" texts as a map; kInvalidArgument for others.
Result<std::map<std::string, std::string>> ParseLabels(const std::vector<std::string>& texts);

// kInvalidArgument unless the catalogue knows the name; names those that resemble it.
Status CheckSignal(const std::string& name);

}  // namespace foreshock::cli
