#include "foreshock/server/auth/tokens_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>

#include "foreshock/base/digest.h"
#include "foreshock/base/file.h"

namespace foreshock::auth {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxFileBytes = 16u << 20;
constexpr size_t kSecretBytes = 32;
constexpr mode_t kNewMode = 0640;
constexpr char kHeader[] =
    "# Foreshock tokens: hashes, one a line. Written by `foreshock token`; see docs/security.md.\n";

Status Wrong(const std::string& what) { return Status(Code::kInvalidArgument, what); }

Result<std::string> TextOf(const Json& line, const char* name) {
  const auto value = line.find(name);
  if (value == line.end() || !value->is_string()) return Wrong(std::string(name) + ": must be a text");
  return value->get<std::string>();
}

Result<std::vector<std::string>> TextsOf(const Json& line, const char* name) {
  const auto value = line.find(name);
  std::vector<std::string> texts;
  const Status wrong = Wrong(std::string(name) + ": must be a list of texts");
  if (value == line.end() || !value->is_array()) return wrong;
  for (const Json& item : *value) {
    if (!item.is_string()) return wrong;
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

Result<int64_t> SecondsOf(const Json& line, const char* name) {
  const auto value = line.find(name);
  if (value == line.end()) return int64_t{0};
  if (!value->is_number_integer()) return Wrong(std::string(name) + ": must be whole seconds since 1970");
  return value->get<int64_t>();
}

Result<Token> ParseToken(const std::string& text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) return Wrong("not a JSON object");
  static const std::set<std::string> kKnown = {"name", "sha256",         "scopes",
                                               "runs", "created_unix_s", "expires_unix_s"};
  for (const auto& [name, value] : line.items()) {
    // A restriction that this version does not know must not be overlooked.
    if (!kKnown.contains(name)) return Wrong(name + ": unknown");
  }
  Token token;
  FS_ASSIGN_OR_RETURN(token.name, TextOf(line, "name"));
  FS_ASSIGN_OR_RETURN(token.sha256, TextOf(line, "sha256"));
  FS_ASSIGN_OR_RETURN(const std::vector<std::string> scopes, TextsOf(line, "scopes"));
  std::string joined;
  for (const std::string& scope : scopes) joined += (joined.empty() ? "" : ",") + scope;
  FS_ASSIGN_OR_RETURN(token.scopes, ParseScopes(joined));
  FS_ASSIGN_OR_RETURN(token.runs, TextsOf(line, "runs"));
  FS_ASSIGN_OR_RETURN(token.created_unix_s, SecondsOf(line, "created_unix_s"));
  FS_ASSIGN_OR_RETURN(token.expires_unix_s, SecondsOf(line, "expires_unix_s"));
  FS_RETURN_IF_ERROR(CheckToken(token));
  return token;
}

Result<std::vector<Token>> ParseTokens(const std::string& path, std::string_view text) {
  std::vector<Token> tokens;
  std::set<std::string> names, hashes;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    const std::string where = path + ":" + std::to_string(number);
    Result<Token> token = ParseToken(std::string(line));
    if (!token.ok()) return token.status().Annotate(where);
    if (!names.insert(token->name).second) return Wrong(where + ": name: '" + token->name + "' twice");
    if (!hashes.insert(token->sha256).second) return Wrong(where + ": sha256: the same as an earlier one");
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

std::string LineOf(const Token& token) {
  Json scopes = Json::array();
  for (const Scope scope : token.scopes) scopes.push_back(ScopeName(scope));
  Json line = {{"name", token.name},
               {"sha256", token.sha256},
               {"scopes", scopes},
               {"runs", token.runs},
               {"created_unix_s", token.created_unix_s}};
  if (token.expires_unix_s != 0) line["expires_unix_s"] = token.expires_unix_s;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status Save(const std::string& path, const std::vector<Token>& tokens) {
  std::string text = kHeader;
  for (const Token& token : tokens) text += LineOf(token);
  struct stat old {};
  const bool there = ::stat(path.c_str(), &old) == 0;
  FS_RETURN_IF_ERROR(WriteFileAtomically(PosixFileSystem(), path, text));
  // The server may run as another user than whoever writes: a file that it cannot read would keep revoked
  // tokens alive.
  const bool owned = !there || ::chown(path.c_str(), old.st_uid, old.st_gid) == 0;
  if (::chmod(path.c_str(), there ? old.st_mode & 07777 : kNewMode) == 0 && owned) return OkStatus();
  return Status(Code::kPermissionDenied, path + ": is written, but its owner and mode could not be kept");
}

}  // namespace

Result<std::vector<Token>> LoadTokens(const std::string& path) {
  FS_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(PosixFileSystem(), path, kMaxFileBytes));
  return ParseTokens(path, text);
}

Result<NewToken> CreateToken(const std::string& path, Token wanted, const Clock& clock) {
  FS_ASSIGN_OR_RETURN(const auto lock, PosixFileSystem().Lock(path + ".lock"));
  Result<std::vector<Token>> tokens = LoadTokens(path);
  if (!tokens.ok() && tokens.status().code() != Code::kNotFound) return tokens.status();
  std::vector<Token> all = tokens.ok() ? *std::move(tokens) : std::vector<Token>();
  for (const Token& token : all) {
    if (token.name == wanted.name) {
      return Status(Code::kAlreadyExists, "name: '" + wanted.name + "' is taken; revoke it first");
    }
  }
  FS_ASSIGN_OR_RETURN(const std::string random, RandomText(kSecretBytes));
  NewToken made;
  made.secret = std::string(kSecretPrefix) + random;
  wanted.sha256 = Sha256Hex(made.secret);
  wanted.created_unix_s = clock.WallNanos() / 1'000'000'000;
  FS_RETURN_IF_ERROR(CheckToken(wanted));
  if (wanted.expires_unix_s != 0 && wanted.expires_unix_s <= wanted.created_unix_s) {
    return Status(Code::kInvalidArgument, "expires: lies in the past");
  }
  all.push_back(wanted);
  FS_RETURN_IF_ERROR(Save(path, all));
  made.token = std::move(wanted);
  return made;
}

Status RevokeToken(const std::string& path, const std::string& name) {
  FS_ASSIGN_OR_RETURN(const auto lock, PosixFileSystem().Lock(path + ".lock"));
  FS_ASSIGN_OR_RETURN(std::vector<Token> tokens, LoadTokens(path));
  if (std::erase_if(tokens, [&](const Token& token) { return token.name == name; }) == 0) {
    return Status(Code::kNotFound, "name: no token '" + name + "' in " + path);
  }
  return Save(path, tokens);
}

}  // namespace foreshock::auth
