// The alert states of one (run, attempt): verdicts in, events out. No detector in here, so that a restart can
// feed history to the detector alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "foreshock/server/alert_core/alert.h"
#include "foreshock/server/detect/finding.h"
#include "foreshock/server/detect/rule_info.h"

namespace foreshock::alert {

// One rule's alert, and how long the verdicts have been at, or below, each severity.
struct RuleState {
  std::optional<Alert> alert;     // pending or firing
  std::array<int, 3> at_least{};  // verdicts in a row with at least this severity
  std::array<int, 3> below{};     // verdicts in a row with less than this severity
};

struct BookState {
  int64_t last_step = -1;
  std::vector<int64_t> checkpoints;        // rising; the latest kMaxCheckpoints
  std::map<std::string, RuleState> rules;  // by rule name
};

class AlertBook {
 public:
  static constexpr size_t kMaxCheckpoints = 256;

  AlertBook(std::string run, std::string attempt) : run_(std::move(run)), attempt_(std::move(attempt)) {}

  void AddCheckpoint(int64_t step);
  void SetStep(int64_t step) { state_.last_step = step; }
  void Apply(const detect::Verdict& verdict, const detect::RuleInfo& info, std::vector<AlertEvent>* events);
  // Ends what the rule has open and forgets the rule.
  void Forget(const std::string& rule, std::vector<AlertEvent>* events);
  std::vector<Alert> Open() const;

  const std::string& run() const { return run_; }
  const std::string& attempt() const { return attempt_; }
  const BookState& state() const { return state_; }
  void Restore(BookState state) { state_ = std::move(state); }

 private:
  void Count(const detect::Finding* finding, RuleState* rule) const;
  Alert NewAlert(const detect::Verdict& verdict, const detect::RuleInfo& info, const detect::Finding& finding,
                 detect::Severity severity) const;
  void Update(const detect::Finding& finding, Alert* alert) const;
  void Fire(Alert alert, int64_t step, RuleState* rule, std::vector<AlertEvent>* events);
  void Resolve(int64_t step, RuleState* rule, std::vector<AlertEvent>* events);
  std::optional<int64_t> CheckpointBefore(int64_t step) const;
  std::string OpenIncident() const;

  std::string run_, attempt_;
  BookState state_;
};

}  // namespace foreshock::alert
