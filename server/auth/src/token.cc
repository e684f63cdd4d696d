#include "foreshock/server/auth/token.h"

#include <algorithm>

namespace foreshock::auth {
namespace {

constexpr size_t kMaxNameBytes = 64, kMaxRunPrefixes = 256, kMaxPrefixBytes = 200;

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

Status Wrong(const std::string& field, const std::string& what) {
  return Status(Code::kInvalidArgument, field + ": " + what);
}

}  // namespace

std::string_view ScopeName(Scope scope) {
  switch (scope) {
    case Scope::kWrite:
      return "write";
    case Scope::kRead:
      return "read";
    case Scope::kControl:
      return "control";
  }
  return "unknown";
}

bool Token::Has(Scope scope) const { return std::find(scopes.begin(), scopes.end(), scope) != scopes.end(); }

bool Token::Covers(std::string_view run) const {
  return std::any_of(runs.begin(), runs.end(),
                     [run](const std::string& prefix) { return run.starts_with(prefix); });
}

bool Token::CoversAllRuns() const { return Covers(""); }

Result<std::vector<Scope>> ParseScopes(std::string_view text) {
  std::vector<Scope> scopes;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const auto scope = std::find_if(std::begin(kAllScopes), std::end(kAllScopes),
                                    [word](Scope s) { return ScopeName(s) == word; });
    if (scope == std::end(kAllScopes)) {
      return Wrong("scopes", "'" + std::string(word) + "', must be write, read or control");
    }
    if (std::find(scopes.begin(), scopes.end(), *scope) != scopes.end()) {
      return Wrong("scopes", "'" + std::string(word) + "' twice");
    }
    scopes.push_back(*scope);
  }
  if (scopes.empty()) return Wrong("scopes", "none, must be write, read or control");
  return scopes;
}

std::string ScopesText(const std::vector<Scope>& scopes) {
  std::string text;
  for (const Scope scope : scopes) text.append(text.empty() ? "" : ",").append(ScopeName(scope));
  return text;
}

Status CheckToken(const Token& token) {
  if (token.name.empty() || token.name.size() > kMaxNameBytes ||
      !std::all_of(token.name.begin(), token.name.end(), IsNameByte)) {
    return Wrong("name", "'" + token.name + "', must be 1 to 64 letters, digits or . _ -");
  }
  if (token.sha256.size() != 64 || !std::all_of(token.sha256.begin(), token.sha256.end(), IsHexDigit)) {
    return Wrong("sha256", "must be 64 lower-case hexadecimal digits");
  }
  if (token.scopes.empty()) return Wrong("scopes", "none, must be write, read or control");
  if (token.runs.empty() || token.runs.size() > kMaxRunPrefixes) {
    return Wrong("runs",
                 std::to_string(token.runs.size()) + " prefixes, must be 1 to 256 (\"\" for all runs)");
  }
  for (const std::string& prefix : token.runs) {
    if (prefix.size() > kMaxPrefixBytes) {
      return Wrong("runs", "a prefix of " + std::to_string(prefix.size()) + " bytes, at most 200");
    }
  }
  if (token.expires_unix_s < 0) return Wrong("expires_unix_s", "negative");
  return OkStatus();
}

}  // namespace foreshock::auth
