// The file of tokens: JSON lines, one token each, hashes instead of secrets (docs/formats/tokens.md). The
// server reads it; `foreshock token` writes it.
#pragma once

#include <string>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/auth/token.h"

namespace foreshock::auth {

// All of it or an error that names file and line: kNotFound, kInvalidArgument (also a name or a hash twice).
Result<std::vector<Token>> LoadTokens(const std::string& path);

struct NewToken {
  Token token;
  std::string secret;  // to be given to its holder: nobody can find it out later
};

// Makes a secret and appends its token; the file is made when it is missing. `wanted` has name, scopes, runs
// and expires_unix_s. kAlreadyExists for a name that is taken; kFailedPrecondition when another process is
// changing the file. A crash leaves the old file or the new one.
Result<NewToken> CreateToken(const std::string& path, Token wanted, const Clock& clock);

// kNotFound when no token has the name.
Status RevokeToken(const std::string& path, const std::string& name);

}  // namespace foreshock::auth
