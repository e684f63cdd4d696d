#include "foreshock/server/alert_core/alert_engine.h"

#include "alert_book.h"
#include "alert_json.h"
#include "foreshock/server/detect/rule_info.h"

namespace foreshock::alert {

class AlertEngine::Impl {
 public:
  Impl(std::string run, std::string attempt, const detect::RunInfo& info, detect::DetectorOptions options)
      : book_(std::move(run), std::move(attempt)),
        rules_(detect::RulesForRun(options.user_rules, book_.run())),
        detector_(info, WithRules(std::move(options), rules_)) {}

  std::vector<AlertEvent> Observe(const detect::StepSample& sample) {
    std::vector<AlertEvent> events;
    const bool known = sample.step <= restored_step_;
    if (sample.step > detector_.last_step() && !known) {
      for (const detect::StepEvent& event : sample.events) {
        if (event.kind == detect::StepEvent::Kind::kCheckpoint) book_.AddCheckpoint(sample.step);
      }
    }
    const std::vector<detect::Verdict> verdicts = detector_.Observe(sample);
    if (known) return events;
    Apply(verdicts, &events);
    book_.SetStep(detector_.last_step());
    return events;
  }

  std::vector<AlertEvent> Tick(double seconds) {
    std::vector<AlertEvent> events;
    if (detector_.last_step() >= restored_step_) Apply(detector_.Tick(seconds), &events);
    return events;
  }

  std::vector<AlertEvent> SetUserRules(const detect::UserRulesPtr& all) {
    const detect::UserRulesPtr rules = detect::RulesForRun(all, book_.run());
    detector_.SetUserRules(rules);
    std::vector<std::string> gone;
    for (const auto& [name, state] : book_.state().rules) {
      const detect::UserRule* before = Find(rules_, name);
      const detect::UserRule* now = Find(rules, name);
      const bool changed = before && now && !(*before == *now);
      if (!detector_.FindRule(name) || changed) gone.push_back(name);
    }
    rules_ = rules;
    std::vector<AlertEvent> events;
    for (const std::string& name : gone) book_.Forget(name, &events);
    return events;
  }

  Status RestoreState(std::string_view text) {
    if (detector_.last_step() >= 0)
      return Status(Code::kFailedPrecondition, "alert state: restore before steps");
    FS_ASSIGN_OR_RETURN(SavedState saved, StateFromJson(text));
    if (saved.run != book_.run() || saved.attempt != book_.attempt()) {
      return Status(Code::kInvalidArgument, "alert state: of " + saved.run + "/" + saved.attempt +
                                                ", not of " + book_.run() + "/" + book_.attempt());
    }
    restored_step_ = saved.book.last_step;
    book_.Restore(std::move(saved.book));
    return OkStatus();
  }

  int64_t known_through() const { return restored_step_; }
  std::vector<Alert> Open() const { return book_.Open(); }
  std::string SaveState() const { return StateToJson(book_); }

 private:
  static detect::DetectorOptions WithRules(detect::DetectorOptions options, detect::UserRulesPtr rules) {
    options.user_rules = std::move(rules);
    return options;
  }

  static const detect::UserRule* Find(const detect::UserRulesPtr& rules, const std::string& name) {
    if (!rules) return nullptr;
    for (const detect::UserRule& rule : *rules) {
      if (rule.name == name) return &rule;
    }
    return nullptr;
  }

  void Apply(const std::vector<detect::Verdict>& verdicts, std::vector<AlertEvent>* events) {
    for (const detect::Verdict& verdict : verdicts) {
      book_.Apply(verdict, *detector_.FindRule(verdict.rule), events);
    }
  }

  AlertBook book_;
  detect::UserRulesPtr rules_;  // of this run
  detect::Detector detector_;
  int64_t restored_step_ = -1;  // samples up to here only rebuild the detector
};

AlertEngine::AlertEngine(std::string run, std::string attempt, const detect::RunInfo& info,
                         detect::DetectorOptions options)
    : impl_(std::make_unique<Impl>(std::move(run), std::move(attempt), info, std::move(options))) {}
AlertEngine::~AlertEngine() = default;
AlertEngine::AlertEngine(AlertEngine&&) noexcept = default;
AlertEngine& AlertEngine::operator=(AlertEngine&&) noexcept = default;

std::vector<AlertEvent> AlertEngine::Observe(const detect::StepSample& sample) {
  return impl_->Observe(sample);
}
std::vector<AlertEvent> AlertEngine::SetUserRules(const detect::UserRulesPtr& rules) {
  return impl_->SetUserRules(rules);
}
std::vector<AlertEvent> AlertEngine::Tick(double seconds) { return impl_->Tick(seconds); }
std::vector<Alert> AlertEngine::Open() const { return impl_->Open(); }
int64_t AlertEngine::known_through() const { return impl_->known_through(); }
std::string AlertEngine::SaveState() const { return impl_->SaveState(); }
Status AlertEngine::RestoreState(std::string_view state) { return impl_->RestoreState(state); }

std::string_view AlertStateName(AlertState state) {
  switch (state) {
    case AlertState::kPending:
      return "pending";
    case AlertState::kFiring:
      return "firing";
    case AlertState::kResolved:
      return "resolved";
  }
  return "unknown";
}

std::string_view AlertEventName(AlertEvent::Kind kind) {
  return kind == AlertEvent::Kind::kFiring ? "firing" : "resolved";
}

}  // namespace foreshock::alert
