#include "judge.h"

#include <algorithm>
#include <limits>

#include "foreshock/base/logging.h"

namespace foreshock::alert {
namespace {

constexpr char kLog[] = "server/alert";
constexpr char kRuleGone[] = "rule removed or changed";
// After all ranks said goodbye, how long their last merged steps may take.
constexpr double kMergeGraceSeconds = 60;
// A process that sent nothing for so long is not one of two that write.
constexpr int64_t kQuietWriterNs = 60'000'000'000;

// Announced by all ranks, in whatever way.
bool Ended(const store::AttemptInfo& info) {
  const auto state = store::StateOf(info, 0, std::numeric_limits<int64_t>::max());
  return state == store::RunState::kFinished || state == store::RunState::kStopped ||
         state == store::RunState::kFailed;
}

std::string ProcessName(const store::SourceInfo& source) {
  return "pid " + std::to_string(source.hello->pid) + " on " + source.hello->host;
}

// Checkpoints that the attempt may have begun with: of each earlier attempt those up to where the next one
// took over. A later attempt's word on a step goes before an earlier one's.
std::map<int64_t, std::string> EarlierCheckpoints(const store::Store& store, const AttemptName& name) {
  std::map<int64_t, std::string> found;
  const auto run = store.GetRun(name.first);
  if (!run.ok()) return found;
  int64_t bound = std::numeric_limits<int64_t>::max();
  bool earlier = false;
  for (auto attempt = run->attempts.rbegin(); attempt != run->attempts.rend(); ++attempt) {
    if (earlier) {
      const auto events = store.ReadEvents(name.first, attempt->attempt, store::kFirstStep, bound);
      if (!events.ok()) break;
      for (const store::StoredEvent& stored : *events) {
        const bool counts = stored.event.kind == wire::EventKind::kCheckpoint && stored.event.step <= bound;
        if (counts) found.try_emplace(stored.event.step, stored.event.detail);
      }
    }
    earlier = earlier || attempt->attempt == name.second;
    if (earlier) bound = std::min(bound, attempt->first_step.value_or(bound));
  }
  return found;
}

int64_t LastStepOf(const store::AttemptInfo& info) { return info.last_step.value_or(-1); }

}  // namespace

void Judge::RebuildAll() {
  for (const store::RunInfo& run : store_->ListRuns()) {
    for (const store::AttemptInfo& attempt : run.attempts) {
      if (*stopping_) return;
      const AttemptName name(run.run, attempt.attempt);
      if (Find(name) != nullptr) EndIfOver(name);
    }
  }
}

Watch* Judge::Find(const AttemptName& name) {
  const auto it = watches_.find(name);
  if (it != watches_.end()) return it->second.get();
  std::unique_ptr<Watch> made = Make(name);
  Watch* watch = (watches_[name] = std::move(made)).get();
  if (watch == nullptr) return nullptr;
  ++open_attempts_;
  // What its end resolved fires on, until the signals say otherwise.
  if (watch->reopened) Tell(*watch, watch->Firing(), "", OpenState(*watch));
  CatchUp(name);
  const auto after = watches_.find(name);  // the run may have been deleted meanwhile
  if (after == watches_.end() || !after->second) return nullptr;
  // What the saved state has open of rules that went while no server ran.
  Take(after->second.get(), after->second->SetUserRules(options_.detector.user_rules), kRuleGone);
  return after->second.get();
}

// Null where there is nothing to watch: closed before, or gone.
std::unique_ptr<Watch> Judge::Make(const AttemptName& name) {
  const auto info = store_->GetAttempt(name.first, name.second);
  if (!info.ok() || info->lead() == nullptr) return nullptr;
  auto watch = std::make_unique<Watch>(name.first, name.second, *info->lead()->hello, options_.detector);
  watch->last_frame_nanos = clock_->MonotonicNanos();
  watch->SetEarlierCheckpoints(EarlierCheckpoints(*store_, name));
  watch->ended = Ended(*info);
  const auto saved = ReadEngineState(*store_, name.first, name.second);
  Status status = saved.status();
  if (saved.ok() && *saved) {
    if ((*saved)->closed && watch->ended) return nullptr;
    status = watch->Restore((*saved)->state);
    watch->reopened = (*saved)->closed && status.ok();
  }
  if (!status.ok()) {
    LogWarning(kLog, "the saved alert state is not usable, judging the run from its start",
               {{"run", name.first}, {"attempt", name.second}, {"error", status}});
  }
  return watch;
}

void Judge::CatchUp(const AttemptName& name) {
  Watch* watch = Find(name);
  if (watch == nullptr) return;
  const int64_t before = watch->last_step();
  const Status status = watch->CatchUp(*store_, options_.rebuild, [&](const std::vector<AlertEvent>& events) {
    ++steps_;
    Take(watch, events);
    return !*stopping_;
  });
  if (watch->last_step() != before) watch->last_frame_nanos = clock_->MonotonicNanos();
  if (status.code() == Code::kNotFound) return OnRunDeleted(name.first);
  if (!status.ok()) {
    LogWarning(kLog, "history cannot be read, judging goes on without it",
               {{"run", name.first}, {"attempt", name.second}, {"error", status}});
  }
}

void Judge::OnFrame(const AttemptName& name, const wire::Frame& frame) {
  Watch* watch = Find(name);
  if (watch == nullptr) return;
  const int64_t before = watch->last_step();
  const std::vector<AlertEvent> events = watch->AddFrame(frame);
  if (watch->last_step() == before) return;
  ++steps_;
  watch->last_frame_nanos = clock_->MonotonicNanos();
  Take(watch, events);
  if (watch->ended) EndIfOver(name);
}

void Judge::OnEvent(const AttemptName& name, const store::SourceId& source, const wire::Event& event) {
  if (Watch* watch = Find(name)) watch->AddEvent(source.rank, source.incarnation, event);
}

void Judge::OnGoodbye(const AttemptName& name) {
  Watch* watch = Find(name);
  if (watch == nullptr) return;
  const auto info = store_->GetAttempt(name.first, name.second);
  watch->ended = info.ok() && Ended(*info);
  if (watch->ended) EndIfOver(name);
}

// A process came, maybe after its attempt had ended (a restart under the same name): judging goes on.
void Judge::OnSource(const AttemptName& name) {
  const auto it = watches_.find(name);
  if (it != watches_.end() && !it->second) watches_.erase(it);
  Watch* watch = Find(name);
  if (watch == nullptr) return;
  const auto info = store_->GetAttempt(name.first, name.second);
  watch->ended = info.ok() && Ended(*info);
}

void Judge::OnRunDeleted(const std::string& run) { Forget(run); }

void Judge::OnRunImported(const std::string& run) {
  Forget(run);
  const Status loaded = book_->LoadRun(run);
  if (!loaded.ok())
    LogWarning(kLog, "alerts of an imported run cannot be read", {{"run", run}, {"error", loaded}});
  const auto info = store_->GetRun(run);
  if (!info.ok()) return;
  for (const store::AttemptInfo& attempt : info->attempts) {
    const AttemptName name(run, attempt.attempt);
    if (Find(name) != nullptr) EndIfOver(name);
  }
  for (const AlertRecord& record : book_->Firing()) {
    if (record.alert.run == run) listeners_->Tell(record);
  }
}

void Judge::Forget(const std::string& run) {
  book_->ForgetRun(run);
  for (auto it = watches_.begin(); it != watches_.end();) {
    if (it->first.first != run) {
      ++it;
      continue;
    }
    if (it->second) --open_attempts_;
    it = watches_.erase(it);
  }
}

void Judge::Take(Watch* watch, const std::vector<AlertEvent>& events, const std::string& because) {
  if (events.empty()) return;
  watch->dirty = false;
  std::vector<Alert> alerts;
  for (const AlertEvent& event : events) alerts.push_back(event.alert);
  Tell(*watch, std::move(alerts), because, OpenState(*watch));
}

void Judge::SetUserRules(const detect::UserRulesPtr& rules) {
  options_.detector.user_rules = rules;
  for (const auto& [name, watch] : watches_) {
    if (watch) Take(watch.get(), watch->SetUserRules(rules), kRuleGone);
  }
}

void Judge::Tell(Watch& watch, std::vector<Alert> alerts, const std::string& because,
                 store::MetaEntry state) {
  std::vector<AlertRecord> news;
  for (Alert& alert : alerts) {
    watch.TellRankOf(*store_, &alert);
    news.push_back(watch.ToRecord(std::move(alert)));
  }
  for (const AlertRecord& record :
       book_->Apply(std::move(news), clock_->WallNanos(), because, std::move(state))) {
    ++(record.alert.state == AlertState::kFiring ? fired_ : resolved_);
    listeners_->Tell(record);
  }
}

void Judge::LookForRivals(Watch* watch, const store::AttemptInfo& info) const {
  const int64_t now = clock_->WallNanos();
  const auto writes = [&](const store::SourceInfo& source) {
    return !source.goodbye && now - source.last_unix_ns <= kQuietWriterNs;
  };
  std::string text;
  size_t more = 0;
  for (const store::Rivals& rivals : store::RivalsOf(info)) {
    if (!writes(*rivals.earlier) || !writes(*rivals.later)) continue;
    if (text.empty()) {
      text = "two processes write as rank " + std::to_string(rivals.rank) + ": " +
             ProcessName(*rivals.earlier) + " and " + ProcessName(*rivals.later);
    } else {
      ++more;
    }
  }
  if (more > 0) text += ", and so do " + std::to_string(more) + " more ranks";
  if (text == watch->rivals) return;
  const auto kind = text.empty() ? detect::StepEvent::Kind::kOneWriter : detect::StepEvent::Kind::kTwoWriters;
  watch->AddNews({kind, -1, text});
  watch->rivals = text;
}

void Judge::Tick() {
  // Failing says no more than that the next start may take a live run for a silent one for a while.
  store_->Beat(clock_->WallNanos()).IgnoreError();
  const int64_t now = clock_->MonotonicNanos();
  const bool save = now - last_save_nanos_ >= std::chrono::nanoseconds(options_.save_interval).count();
  if (save) last_save_nanos_ = now;
  std::vector<AttemptName> names;
  for (const auto& [name, watch] : watches_) {
    if (watch) names.push_back(name);
  }
  for (const AttemptName& name : names) {
    EndIfOver(name);
    const auto it = watches_.find(name);
    if (it == watches_.end() || !it->second) continue;
    Watch* watch = it->second.get();
    // An attempt that ended, or that a newer one replaces, is not stalled.
    const auto run = store_->GetRun(name.first);
    const bool newest = run.ok() && run->newest().attempt == name.second;
    if (newest && !watch->ended) {
      LookForRivals(watch, run->newest());
      Take(watch, watch->Tick(QuietSeconds(*watch)));
    }
    std::vector<Alert> open = watch->Open();
    for (Alert& alert : open) watch->TellRankOf(*store_, &alert);
    book_->Refresh(open);
    if (save && std::exchange(watch->dirty, false)) book_->SaveEngine(OpenState(*watch));
  }
}

void Judge::SaveAll(std::chrono::milliseconds at_most) {
  const int64_t end_ns = clock_->MonotonicNanos() + std::chrono::nanoseconds(at_most).count();
  for (const auto& [name, watch] : watches_) {
    if (clock_->MonotonicNanos() >= end_ns) return;
    if (watch && watch->dirty) book_->SaveEngine(OpenState(*watch));
  }
}

void Judge::EndIfOver(const AttemptName& name) {
  const auto it = watches_.find(name);
  if (it == watches_.end() || !it->second) return;
  const Watch& watch = *it->second;
  const auto run = store_->GetRun(name.first);
  if (!run.ok()) return OnRunDeleted(name.first);
  const auto info = std::find_if(run->attempts.begin(), run->attempts.end(),
                                 [&](const store::AttemptInfo& a) { return a.attempt == name.second; });
  if (info == run->attempts.end()) return;
  const double quiet = QuietSeconds(watch);
  const auto state = store::StateOf(*info, clock_->WallNanos(), std::numeric_limits<int64_t>::max());
  const bool judged_all = watch.last_step() >= LastStepOf(*info) || quiet >= kMergeGraceSeconds;
  if (state == store::RunState::kFinished && judged_all) return Close(name, "run finished");
  if (state == store::RunState::kStopped && judged_all) return Close(name, "run stopped");
  if (info->attempt != run->newest().attempt && quiet >= options_.supersede_after_seconds) {
    return Close(name, "newer attempt");
  }
  if (state == store::RunState::kFailed && judged_all && quiet >= options_.failed_hold_seconds) {
    return Close(name, "run failed a while ago");
  }
  if (quiet >= options_.abandon_after_seconds) Close(name, "silent for too long");
}

void Judge::Close(const AttemptName& name, const std::string& because) {
  const std::unique_ptr<Watch> watch = std::move(watches_[name]);
  --open_attempts_;
  std::vector<Alert> alerts = watch->Firing();
  for (Alert& alert : alerts) {
    alert.state = AlertState::kResolved;
    alert.resolved_step = watch->last_step();
  }
  Tell(*watch, std::move(alerts), because,
       ToEntry(name.first, name.second, EngineState{true, because, watch->SaveState()}));
}

double Judge::QuietSeconds(const Watch& watch) const {
  return static_cast<double>(clock_->MonotonicNanos() - watch.last_frame_nanos) * 1e-9;
}

store::MetaEntry Judge::OpenState(const Watch& watch) const {
  return ToEntry(watch.run(), watch.attempt(), EngineState{false, "", watch.SaveState()});
}

}  // namespace foreshock::alert
