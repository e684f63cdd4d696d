#include "foreshock/server/auth/gate.h"

#include <algorithm>

#include "foreshock/base/digest.h"
#include "foreshock/server/auth/tokens_file.h"

namespace foreshock::auth {
namespace {

constexpr char kHowToGive[] =
    "give one with --token-file (FORESHOCK_TOKEN_FILE) or the header 'Authorization: Bearer TOKEN'";

Status Denied(const std::string& message) { return Status(Code::kPermissionDenied, message); }

std::string RunsText(const Token& token) {
  std::string text;
  for (const std::string& prefix : token.runs) text.append(text.empty() ? "" : ", ").append(prefix);
  return text;
}

// The name in a log line comes from outside: bounded, and no secret by mistake of its giver.
std::string Shortened(const std::string& text) { return text.substr(0, 128); }

}  // namespace

Status Caller::MayAtAll(Scope scope) const {
  if (token_ == nullptr) {
    if (scope != Scope::kControl || may_act_) return OkStatus();
    return Denied(
        std::string("authorization: acting needs this server's control token (control_token_file); ") +
        kHowToGive);
  }
  if (token_->Has(scope)) return OkStatus();
  return Denied("authorization: " + name_ + " lacks the scope " + std::string(ScopeName(scope)) +
                "; it has " + ScopesText(token_->scopes));
}

Status Caller::May(Scope scope, std::string_view run) const {
  FS_RETURN_IF_ERROR(MayAtAll(scope));
  if (token_ == nullptr || token_->Covers(run)) return OkStatus();
  return Denied("authorization: " + name_ + " is for runs that begin with " + RunsText(*token_) +
                ", not for '" + std::string(run) + "'");
}

Status Caller::MayForAllRuns(Scope scope) const {
  FS_RETURN_IF_ERROR(MayAtAll(scope));
  if (token_ == nullptr || token_->CoversAllRuns()) return OkStatus();
  return Denied("authorization: " + name_ + " is for runs that begin with " + RunsText(*token_) +
                "; this concerns all runs");
}

Gate::Gate(GateOptions options) : options_(std::move(options)), tokens_(std::make_shared<Tokens>()) {
  if (options_.control_token.empty()) return;
  auto control = std::make_shared<Token>();
  control->name = "control_token_file";
  control->scopes = {Scope::kRead, Scope::kControl};
  control->runs = {""};
  control_ = std::move(control);
}

Status Gate::Reload() {
  if (options_.tokens_file.empty()) return OkStatus();
  Result<std::vector<Token>> loaded = LoadTokens(options_.tokens_file);
  if (!loaded.ok()) {
    ++reload_failures_;
    return loaded.status().Annotate("tokens_file");
  }
  auto tokens = std::make_shared<Tokens>();
  for (Token& token : *loaded) tokens->push_back(std::make_shared<const Token>(std::move(token)));
  {
    std::lock_guard lock(mutex_);
    tokens_ = std::move(tokens);
  }
  ++generation_;
  ++reloads_;
  return OkStatus();
}

// Compares with every token, so that the time says nothing about which one nearly fits.
std::shared_ptr<const Token> Gate::Find(const std::string& secret) const {
  std::shared_ptr<const Tokens> tokens;
  {
    std::lock_guard lock(mutex_);
    tokens = tokens_;
  }
  const std::string hash = Sha256Hex(secret);
  std::shared_ptr<const Token> found;
  for (const auto& token : *tokens) {
    if (SameSecret(token->sha256, hash)) found = token;
  }
  return found;
}

Result<Caller> Gate::Identify(const Credentials& credentials) const {
  const bool control = control_ != nullptr && SameSecret(credentials.token, options_.control_token);
  if (control && tokens_needed()) return Caller("the control token", control_, true);
  if (!tokens_needed()) {
    std::string name = credentials.certificate.empty() ? "address " + HostOf(credentials.address)
                                                       : "certificate " + Shortened(credentials.certificate);
    return Caller(std::move(name), nullptr, control_ == nullptr || control);
  }
  if (credentials.token.empty()) {
    ++no_token_;
    return Denied(std::string("authorization: this server needs a token; ") + kHowToGive);
  }
  std::shared_ptr<const Token> token = Find(credentials.token);
  if (token == nullptr) {
    ++unknown_;
    return Denied(
        "authorization: this server does not know the token (mistyped, revoked, or of another server)");
  }
  const int64_t now_s = options_.clock->WallNanos() / 1'000'000'000;
  if (token->expires_unix_s != 0 && now_s >= token->expires_unix_s) {
    ++expired_;
    return Denied("authorization: token " + token->name +
                  " has expired; `foreshock token revoke` and `create` make a new one");
  }
  std::string name = "token " + token->name;
  return Caller(std::move(name), std::move(token), true);
}

Result<Caller> Gate::Admit(const Credentials& credentials, Scope scope, std::string_view run) const {
  FS_ASSIGN_OR_RETURN(Caller caller, Identify(credentials));
  FS_RETURN_IF_ERROR(Count(caller.May(scope, run)));
  return caller;
}

Status Gate::Count(Status refusal) const {
  if (!refusal.ok()) ++not_allowed_;
  return refusal;
}

Gate::Stats Gate::stats() const {
  Stats stats;
  {
    std::lock_guard lock(mutex_);
    stats.tokens = tokens_->size();
  }
  stats.no_token = no_token_;
  stats.unknown_token = unknown_;
  stats.expired_token = expired_;
  stats.not_allowed = not_allowed_;
  stats.reloads = reloads_;
  stats.reload_failures = reload_failures_;
  return stats;
}

std::string HostOf(std::string_view address) {
  bool with_port = false;
  for (const std::string_view scheme : {"ipv4:", "ipv6:"}) {
    if (!address.starts_with(scheme)) continue;
    address.remove_prefix(scheme.size());
    with_port = true;
  }
  if (with_port) address = address.substr(0, address.rfind(':'));
  if (address.size() >= 2 && address.front() == '[' && address.back() == ']') {
    address = address.substr(1, address.size() - 2);
  }
  return std::string(address);
}

}  // namespace foreshock::auth
