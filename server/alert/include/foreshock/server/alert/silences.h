// Silences and acknowledgements: which alerts nobody is to be told of. They change no judgement: a covered
// alert fires, is kept and is shown as always.
//
//   silence          covers every alert that fits its fields, those to come too, until it ends
//   acknowledgement  covers one alert that fires: somebody looks after it. Ends when the alert resolves, so
//                    that an escalation, which is an alert of its own, is told again
// Each is in the store (kind "silence", of no run) before the call that made it returns, together with its
// line of the audit trail; after kill -9 they hold as before. Ended ones are kept for 30 days.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/alert/alert_service.h"
#include "foreshock/server/alert/audit.h"

namespace foreshock::alert {

struct Silence {
  std::string id;  // made by Silences
  bool acknowledgement = false;
  // What it covers: an alert fits when everything that is given fits. Of an acknowledgement only `alert`
  // counts; the rest says what that alert is.
  std::string run, rule;                     // patterns: * and ? as in file names; empty: any
  std::string attempt;                       // of an acknowledgement
  std::optional<detect::Severity> severity;  // nullopt: any
  std::optional<int32_t> layer, head;        // nullopt: any, and none
  std::string alert;                         // id; empty: any
  std::string author, comment;
  int64_t created_unix_ns = 0, starts_unix_ns = 0, ends_unix_ns = 0;
  std::string ended_by;                       // who ended it before its time, or "resolved"
  std::map<std::string, std::string> copies;  // by notification target: what became of the copy there
};

enum class SilenceState : uint8_t { kPending, kActive, kExpired };
SilenceState StateOf(const Silence& silence, int64_t now_unix_ns);
// Whatever the time is.
bool Covers(const Silence& silence, const Alert& alert);

// kInvalidArgument unless a silence may last so long.
Status CheckSilenceLength(double seconds);

struct AcknowledgeOptions {
  std::string run = {};    // exact, required
  std::string alert = {};  // id; empty: all that fire of the run
  std::string rule = {};   // pattern; empty: any
  std::string author = {}, comment = {};
  double seconds = 0;  // at most so long; 0: 24 hours
};

struct SilenceOptions {
  store::Store* store = nullptr;  // none of these is owned; all must outlive the Silences
  AlertService* alerts = nullptr;
  AuditLog* audit = nullptr;
  const Clock* clock = nullptr;
};

// Thread-safe.
class Silences {
 public:
  static constexpr size_t kMostActive = 1000;
  static constexpr int64_t kLongestDays = 366;

  // Ends the acknowledgements of alerts that resolved meanwhile.
  static Result<std::unique_ptr<Silences>> Start(const SilenceOptions& options);
  virtual ~Silences() = default;

  // Fills in id and times (starts 0: now). kInvalidArgument naming the field: nothing to cover, an end that
  // is not after the start or too far away, texts that are too long; kResourceExhausted at kMostActive.
  virtual Result<Silence> Create(Silence wanted) = 0;
  // One for each alert that fires and is not acknowledged yet. kNotFound when there is no such alert.
  virtual Result<std::vector<Silence>> Acknowledge(const AcknowledgeOptions& options) = 0;
  // Ends it now; one that is over stays as it is. kNotFound.
  virtual Result<Silence> Expire(const std::string& id, const std::string& who) = 0;

  // Newest first.
  virtual std::vector<Silence> List(bool with_expired) const = 0;
  // Those that hold for the alert now, acknowledgements first.
  virtual std::vector<Silence> Of(const Alert& alert) const = 0;
  bool Silenced(const Alert& alert) const { return !Of(alert).empty(); }

  // Silences of this one run (none by pattern) and acknowledgements of its alerts, ended ones too, as they
  // are stored; and one of another server as it was stored there, its times too. Copies at targets are not
  // believed, they are looked for anew. False: one of this id is here, or it has ended and many such are.
  // kInvalidArgument for what is none, is not of `run` alone or of a time more than a day ahead;
  // kResourceExhausted at kMostActive.
  virtual std::vector<store::MetaEntry> EntriesOf(const std::string& run) const = 0;
  virtual Result<bool> Adopt(const std::string& run, const store::MetaEntry& entry) = 0;

  // What became of a copy of the silence at a notification target. One owner a target.
  virtual void SetCopy(const std::string& id, const std::string& target, const std::string& state) = 0;
  // Rises with every change of what is silenced, but not with time.
  virtual uint64_t version() const = 0;
};

}  // namespace foreshock::alert
