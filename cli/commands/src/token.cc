// foreshock token create|list|revoke
#include <ctime>

#include "commands.h"
#include "common.h"
#include "foreshock/base/clock.h"
#include "foreshock/json/writer.h"
#include "foreshock/server/auth/tokens_file.h"

namespace foreshock::cli {
namespace {

std::string DateText(int64_t unix_s) {
  if (unix_s == 0) return "never";
  const std::time_t time = unix_s;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

void WriteToken(const auth::Token& token, json::Writer* out) {
  out->Key("name").String(token.name).Key("scopes").BeginArray();
  for (const auth::Scope scope : token.scopes) out->String(auth::ScopeName(scope));
  out->EndArray().Key("runs").BeginArray();
  for (const std::string& run : token.runs) out->String(run);
  out->EndArray().Key("created_unix_s").Int(token.created_unix_s).Key("expires_unix_s");
  if (token.expires_unix_s == 0) {
    out->Null();
  } else {
    out->Int(token.expires_unix_s);
  }
}

std::string RunsOf(const auth::Token& token) {
  if (token.CoversAllRuns()) return "all runs";
  std::string text;
  for (const std::string& run : token.runs) text += (text.empty() ? "" : ", ") + run + "*";
  return text;
}

class TokenCommand final : public Command {
 public:
  CommandSpec Spec() override {
    return {
        "token", "Make, list and revoke the tokens of a server (docs/security.md)",
        "Works on the server's file of tokens (tokens_file), which holds hashes: a token is printed once, "
        "when "
        "it is\nmade. The server reads the file again within seconds, or at once on SIGHUP.\n\nExamples:\n"
        "  foreshock token create agents --tokens /etc/foreshock/tokens --scope write\n"
        "  foreshock token create ana --tokens tokens --scope read --scope control --runs team-a/ "
        "--expires-days 90\n"
        "  foreshock token list --tokens tokens\n  foreshock token revoke ana --tokens tokens",
        [this](ArgSink& sink) {
          sink.Positional("WHAT", &what_, "create, list or revoke");
          sink.OptionalPositional("NAME", &wanted_.name, "whose token: letters, digits, . _ -");
          sink.Option("--tokens", &file_, "the server's file of tokens", "FORESHOCK_TOKENS");
          sink.Option("--scope", &scopes_, "create: write, read or control; may be repeated");
          sink.Option("--runs", &wanted_.runs,
                      "create: only runs whose names begin with this; may be repeated (default: all)");
          sink.Option("--expires-days", &expires_days_, "create: good for so many days (default: for ever)");
          sink.Flag("--json", &json_, "print JSON");
        }};
  }

  int Run(Context& context) override {
    if (file_.empty())
      return Fail(context, Status(Code::kInvalidArgument, "tokens: give the file with --tokens"));
    if (what_ == "list") return List(context);
    if (what_ != "create" && what_ != "revoke") {
      return Fail(context,
                  Status(Code::kInvalidArgument, "'" + what_ + "': expected create, list or revoke"));
    }
    if (wanted_.name.empty()) return Fail(context, Status(Code::kInvalidArgument, "name: missing"));
    return what_ == "create" ? Create(context) : Revoke(context);
  }

 private:
  Status Prepare() {
    std::string scopes;
    for (const std::string& scope : scopes_) scopes += (scopes.empty() ? "" : ",") + scope;
    FS_ASSIGN_OR_RETURN(wanted_.scopes, auth::ParseScopes(scopes));
    if (wanted_.runs.empty()) wanted_.runs = {""};
    if (!expires_days_) return OkStatus();
    FS_RETURN_IF_ERROR(CheckRange("expires-days", *expires_days_, 1, 36'500));
    wanted_.expires_unix_s = SystemClock::Instance().WallNanos() / 1'000'000'000 + *expires_days_ * 86'400;
    return OkStatus();
  }

  int Create(Context& context) {
    if (const Status status = Prepare(); !status.ok()) return Fail(context, status);
    const auto made = auth::CreateToken(file_, wanted_, SystemClock::Instance());
    if (!made.ok()) return Fail(context, made.status());
    if (json_) {
      json::Writer out;
      out.BeginObject();
      WriteToken(made->token, &out);
      context.out << out.Key("token").String(made->secret).EndObject().Take() << "\n";
      return kExitOk;
    }
    // The token alone on stdout, so that it can be sent into a file.
    context.err << made->token.name << ": " << auth::ScopesText(made->token.scopes) << " on "
                << Printable(RunsOf(made->token)) << ", expires " << DateText(made->token.expires_unix_s)
                << ". It is shown this once:\n";
    context.out << made->secret << "\n";
    return kExitOk;
  }

  int Revoke(Context& context) {
    const Status status = auth::RevokeToken(file_, wanted_.name);
    if (!status.ok()) return Fail(context, status);
    if (json_) {
      json::Writer out;
      context.out << out.BeginObject().Key("revoked").String(wanted_.name).EndObject().Take() << "\n";
    } else {
      context.out << "revoked " << wanted_.name << "; the server forgets it within seconds\n";
    }
    return kExitOk;
  }

  int List(Context& context) {
    const auto tokens = auth::LoadTokens(file_);
    if (!tokens.ok()) return Fail(context, tokens.status());
    if (json_) {
      json::Writer out;
      out.BeginObject().Key("tokens").BeginArray();
      for (const auth::Token& token : *tokens) {
        out.BeginObject();
        WriteToken(token, &out);
        out.EndObject();
      }
      context.out << out.EndArray().EndObject().Take() << "\n";
      return kExitOk;
    }
    if (tokens->empty()) {
      context.out << "no tokens\n";
      return kExitOk;
    }
    for (const auth::Token& token : *tokens) {
      context.out << token.name << "  " << auth::ScopesText(token.scopes) << "  " << Printable(RunsOf(token))
                  << "  made " << DateText(token.created_unix_s) << ", expires "
                  << DateText(token.expires_unix_s) << "\n";
    }
    return kExitOk;
  }

  std::string what_, file_;
  auth::Token wanted_;
  std::vector<std::string> scopes_;
  std::optional<int64_t> expires_days_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeToken() { return std::make_unique<TokenCommand>(); }

}  // namespace foreshock::cli
