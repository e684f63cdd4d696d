// Actions and sampling changes: checked, recorded, handed to the trainer's link, and followed to their
// effect.
//
//   proposed -> delivered -> taken -> effective | no_effect        as the trainer's events say
//            -> refused                                            the trainer said no, and why
//            -> expired                                            not taken before expiry_step, or the run
//            ended
// enable_qk_norm of several ranks goes in two phases (docs/design/2026-11-30-two-phase-switch.md):
//   proposed -> committed -> taken -> ...     every rank has acknowledged it; all switch at one step
//            -> withdrawn                     one refused, ended or was not heard in time; nobody switches
// Where a rank's SDK knows no proposals it goes out in one phase, far ahead, and the record's note names that
// rank. The record of an action is in the store before the action is handed on, and what became of it is
// derived from the durable events, so that a crash in between loses nothing and sends nothing that is not
// recorded.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/alert/audit.h"
#include "foreshock/server/ingest/outbox.h"
#include "foreshock/server/store/store.h"
#include "foreshock/v1/control.pb.h"

namespace foreshock::control {

// Of two records of one action, here and in an archive (values of meta entries): true when the one told of
// must take the place of the one here, because ranks may have obeyed it: it is committed, and the one here is
// not.
bool Supersedes(std::string_view kind, const std::string& here, const std::string& told);

struct ControlOptions {
  store::Store* store = nullptr;  // this and the next two: not owned, must outlive the Controls
  ingest::Outbox* outbox = nullptr;
  const Clock* clock = nullptr;
  alert::AuditLog* audit = nullptr;  // not owned; hears of what is proposed and refused; null: nobody
  uint64_t seed = 0;                 // for action ids; 0: from the system
  // Rules act only where both hold: this, and for `stop` also allow_rule_stop.
  bool allow_rule_actions = false;
  bool allow_rule_stop = false;
  // How long ranks may take to acknowledge a proposal, anew after a restart. Longer: a rank that evaluates or
  // writes a checkpoint is waited for; shorter: the issuer hears sooner that nothing will happen.
  std::chrono::nanoseconds acknowledge_timeout = std::chrono::seconds(120);
};

// Thread-safe. Errors: kInvalidArgument naming the field; kNotFound for runs and attempts;
// kFailedPrecondition where the attempt has ended or another is going on; else what the store says.
class Controls {
 public:
  // Puts what has not been taken yet into the outbox again.
  static Result<std::unique_ptr<Controls>> Start(const ControlOptions& options);
  virtual ~Controls() = default;

  // By hand. An empty issuer becomes "operator"; "rule:..." is refused.
  virtual Result<v1::ActReply> Act(const v1::ActRequest& request) = 0;
  // By a rule; kPermissionDenied without the opt-ins.
  virtual Result<v1::ActReply> ActByRule(const std::string& rule, v1::ActRequest request) = 0;
  // Of all attempts of the run, oldest first.
  virtual Result<v1::ListActionsReply> ListActions(const v1::ListActionsRequest& request) = 0;
  virtual Status SetSampling(const v1::SetSamplingRequest& request) = 0;

  // Returns when every event that was durable before the call has been taken in.
  virtual void Flush() = 0;
};

}  // namespace foreshock::control
