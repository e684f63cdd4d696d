// Gate: who makes a call, and whether he may. One for all ports of a server.
//
// Without a tokens file everybody may do everything, which suits a server that only its own machine reaches;
// a control token alone then guards acting. With a tokens file every call needs a token, whose scopes and run
// prefixes decide. The control token, where there is one, may read and act on all runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/auth/token.h"

namespace foreshock::auth {

// What a call brings along.
struct Credentials {
  std::string token = {};        // bearer token; empty: none
  std::string certificate = {};  // name in the client's verified certificate; empty: none
  std::string address = {};      // of the other end, as the library tells it
};

// A call's maker. Cheap to copy.
class Caller {
 public:
  // May do everything: a server without tokens.
  static Caller Anybody(std::string name) { return Caller(std::move(name), nullptr, true); }

  // For counting and for people: "token ci", "certificate node-7", "address 10.0.0.3". Never a secret.
  const std::string& name() const { return name_; }
  // kPermissionDenied saying what lacks.
  Status May(Scope scope, std::string_view run) const;
  // The same for what concerns all runs, e.g. /metrics.
  Status MayForAllRuns(Scope scope) const;
  // The same for what concerns no run.
  Status MayAtAll(Scope scope) const;

 private:
  friend class Gate;
  Caller(std::string name, std::shared_ptr<const Token> token, bool may_act)
      : name_(std::move(name)), token_(std::move(token)), may_act_(may_act) {}

  std::string name_;
  std::shared_ptr<const Token> token_;  // null: no token is needed ...
  bool may_act_ = true;                 // ... except for this
};

struct GateOptions {
  std::string tokens_file = {};    // empty: calls need no token
  std::string control_token = {};  // empty: none
  const Clock* clock = &SystemClock::Instance();
};

// Thread-safe.
class Gate {
 public:
  // A gate that lets everybody do everything.
  Gate() : Gate(GateOptions{}) {}
  explicit Gate(GateOptions options);

  // Reads the tokens file again, all or nothing: on an error the old tokens stay. Ok without one. Call it
  // once before the first call.
  Status Reload();

  // kPermissionDenied: no token given where one is needed, an unknown or an expired one. Counted.
  Result<Caller> Identify(const Credentials& credentials) const;
  // Identify, then Caller::May. Counted.
  Result<Caller> Admit(const Credentials& credentials, Scope scope, std::string_view run) const;
  // Counts a refusal of Caller's, and hands it on.
  Status Count(Status refusal) const;

  bool tokens_needed() const { return !options_.tokens_file.empty(); }
  bool has_control_token() const { return !options_.control_token.empty(); }
  // Rises when the tokens change: who keeps a Caller asks Identify again.
  uint64_t generation() const { return generation_.load(); }

  struct Stats {
    uint64_t tokens = 0;                                                           // known now
    uint64_t no_token = 0, unknown_token = 0, expired_token = 0, not_allowed = 0;  // calls refused
    uint64_t reloads = 0, reload_failures = 0;
  };
  Stats stats() const;

 private:
  using Tokens = std::vector<std::shared_ptr<const Token>>;
  std::shared_ptr<const Token> Find(const std::string& secret) const;

  const GateOptions options_;
  std::shared_ptr<const Token> control_;
  mutable std::mutex mutex_;  // guards tokens_
  std::shared_ptr<const Tokens> tokens_;
  std::atomic<uint64_t> generation_{1};
  mutable std::atomic<uint64_t> no_token_{0}, unknown_{0}, expired_{0}, not_allowed_{0};
  std::atomic<uint64_t> reloads_{0}, reload_failures_{0};
};

// "ipv4:10.0.0.3:51234" and "10.0.0.3" are "10.0.0.3"; "ipv6:[::1]:5" is "::1".
std::string HostOf(std::string_view address);

}  // namespace foreshock::auth
