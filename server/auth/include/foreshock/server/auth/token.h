// What a bearer token may do. The secret itself is shown once, when it is made; what is kept is its SHA-256
// (a secret of 256 random bits cannot be guessed from it, so no slow hash is needed).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::auth {

enum class Scope : uint8_t {
  kWrite,    // send measurements
  kRead,     // ask about runs
  kControl,  // act on trainers, change sampling
};
inline constexpr Scope kAllScopes[] = {Scope::kWrite, Scope::kRead, Scope::kControl};

std::string_view ScopeName(Scope scope);  // "write", "read", "control"

// What one token may do on which runs.
struct Token {
  std::string name;               // who holds it; 1 to 64 of A-Z a-z 0-9 . _ -
  std::string sha256;             // of the secret, 64 hexadecimal digits
  std::vector<Scope> scopes;      // at least one
  std::vector<std::string> runs;  // beginnings of run names, at least one; "" covers all
  int64_t created_unix_s = 0;
  int64_t expires_unix_s = 0;  // 0: never

  bool Has(Scope scope) const;
  bool Covers(std::string_view run) const;
  bool CoversAllRuns() const;
};

// "write,read". kInvalidArgument naming the field for an unknown, repeated or missing one.
Result<std::vector<Scope>> ParseScopes(std::string_view text);
std::string ScopesText(const std::vector<Scope>& scopes);

// kInvalidArgument naming the field.
Status CheckToken(const Token& token);

inline constexpr std::string_view kSecretPrefix = "fsk_";  // so that scanners find a leaked one

}  // namespace foreshock::auth
