#include "foreshock/server/control/controls.h"

#include <atomic>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "action_log.h"
#include "agreement.h"
#include "deliveries.h"
#include "foreshock/base/logging.h"
#include "progress.h"
#include "switch_step.h"
#include "validate.h"

namespace foreshock::control {
namespace {

using AttemptName = std::pair<std::string, std::string>;  // run, attempt

constexpr std::string_view kRulePrefix = "rule:";

class ControlsImpl final : public Controls, public store::Observer {
 public:
  explicit ControlsImpl(const ControlOptions& options)
      : options_(options),
        deliveries_(options.outbox, options.clock, options.acknowledge_timeout),
        random_(options.seed != 0 ? options.seed : std::random_device()()) {}

  Status Begin() {
    FS_RETURN_IF_ERROR(Restore());
    subscription_ = options_.store->Subscribe(this);
    thread_ = std::thread([this] { Run(); });
    return OkStatus();
  }

  ~ControlsImpl() override {
    subscription_.reset();
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  Result<v1::ActReply> Act(const v1::ActRequest& request) override {
    if (request.issuer().starts_with(kRulePrefix)) {
      return Status(Code::kInvalidArgument, "issuer: \"rule:\" is for the server's own rules");
    }
    return ProposeOnRecord(request);
  }

  Result<v1::ActReply> ActByRule(const std::string& rule, v1::ActRequest request) override {
    if (!options_.allow_rule_actions || (request.kind() == "stop" && !options_.allow_rule_stop)) {
      if (options_.audit != nullptr) {
        options_.audit->Add({0, std::string(kRulePrefix) + rule, "action_refused", request.run(), "",
                             request.kind() + ", " + request.reason() + ": rules may not here"});
      }
      return Status(Code::kPermissionDenied, "rule " + rule + ": rules may not " + request.kind() + " here");
    }
    request.set_issuer(std::string(kRulePrefix) + rule);
    return ProposeOnRecord(request);
  }

  Result<v1::ListActionsReply> ListActions(const v1::ListActionsRequest& request) override {
    if (request.run().empty()) return Status(Code::kInvalidArgument, "run: empty, name a run");
    FS_RETURN_IF_ERROR(options_.store->GetRun(request.run()).status());
    FS_ASSIGN_OR_RETURN(std::vector<LoggedAction> actions, ReadActions(*options_.store, request.run()));
    v1::ListActionsReply reply;
    for (LoggedAction& action : actions) *reply.add_actions() = std::move(action.record);
    return reply;
  }

  Status SetSampling(const v1::SetSamplingRequest& request) override {
    FS_ASSIGN_OR_RETURN(const store::AttemptInfo attempt,
                        LiveAttempt(*options_.store, request.run(), request.attempt()));
    FS_RETURN_IF_ERROR(CheckSampling(request.sampling()));
    const store::MetaEntry entries[] = {
        {kSamplingKind, request.run(), attempt.attempt, request.sampling().SerializeAsString()}};
    FS_RETURN_IF_ERROR(options_.store->PutMeta(entries));
    if (options_.audit != nullptr) {
      options_.audit->Add({0, "operator", "sampling_changed", request.run(), attempt.attempt,
                           request.sampling().ShortDebugString()});
    }
    Send({request.run(), attempt.attempt}, request.sampling());
    return OkStatus();
  }

  void Flush() override {
    std::unique_lock lock(mutex_);
    const uint64_t goal = ++asked_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_ >= goal || stopping_; });
  }

 private:
  Result<v1::ActReply> ProposeOnRecord(const v1::ActRequest& request) {
    const Result<v1::ActReply> reply = Propose(request);
    // What is wrong in itself never was a proposal.
    const Code code = reply.status().code();
    if (options_.audit == nullptr || code == Code::kInvalidArgument || code == Code::kNotFound) return reply;
    const std::string who = request.issuer().empty() ? "operator" : request.issuer();
    std::string detail = request.kind();
    if (!request.reason().empty()) detail += ", " + request.reason();
    if (!reply.ok()) detail += ": " + reply.status().message();
    options_.audit->Add({0, who, reply.ok() ? "action_proposed" : "action_refused", request.run(),
                         reply.ok() ? reply->action().id() : "", std::move(detail)});
    return reply;
  }

  Result<v1::ActReply> Propose(const v1::ActRequest& request) {
    FS_ASSIGN_OR_RETURN(const store::AttemptInfo attempt,
                        LiveAttempt(*options_.store, request.run(), request.attempt()));
    FS_RETURN_IF_ERROR(CheckAction(request, attempt));
    LoggedAction logged{request.run(), {}};
    v1::Action& action = *logged.record.mutable_action();
    action.set_id(MintId());
    action.set_kind(request.kind());
    action.set_attempt(attempt.attempt);
    action.set_issuer(request.issuer().empty() ? "operator" : request.issuer());
    const bool together = IsSwitch(request.kind()) && attempt.world_size > 1;
    const std::string unable = together ? RankWithoutProposals(attempt) : "";
    const int64_t effective =
        together ? EarliestSwitch(attempt, request.effective_step()) : request.effective_step();
    if (request.expiry_step() > 0 && request.expiry_step() <= effective) {
      return Status(Code::kInvalidArgument, "expiry_step: " + std::to_string(request.expiry_step()) +
                                                ", the ranks can switch at " + std::to_string(effective) +
                                                " at the earliest");
    }
    logged.record.set_two_phase(together && unable.empty());
    if (!unable.empty()) logged.record.set_note("in one phase: " + unable + " knows no proposals");
    // What every rank has acknowledged gets its step then.
    action.set_effective_step(logged.record.two_phase() ? request.effective_step() : effective);
    action.set_expiry_step(request.expiry_step());
    *action.mutable_layers() = request.layers();
    action.set_value(request.value());
    action.set_reason(request.reason());
    logged.record.set_state(v1::ACTION_STATE_PROPOSED);
    FS_RETURN_IF_ERROR(WriteAction(options_.store, logged));
    deliveries_.HandOn(logged);
    Follow(logged);
    Log("action proposed", logged);
    v1::ActReply reply;
    *reply.mutable_action() = action;
    return reply;
  }

  // 16 digits of time, so that ids rise, and 8 of chance.
  std::string MintId() {
    std::lock_guard lock(mutex_);
    last_id_time_ = std::max(last_id_time_ + 1, options_.clock->WallNanos());
    char text[32];
    std::snprintf(text, sizeof text, "%016llx%08x", static_cast<unsigned long long>(last_id_time_),
                  static_cast<unsigned>(random_()));
    return text;
  }

  Status Restore() {
    FS_ASSIGN_OR_RETURN(const std::vector<LoggedAction> actions, ReadAllActions(*options_.store));
    FS_ASSIGN_OR_RETURN(const auto samplings, options_.store->ScanMetaOfAllRuns(kSamplingKind));
    TakeUp(actions, samplings);
    return OkStatus();
  }

  // What came in an archive, as after a restart.
  Status TakeUp(const std::string& run) {
    FS_ASSIGN_OR_RETURN(const std::vector<LoggedAction> actions, ReadActions(*options_.store, run));
    FS_ASSIGN_OR_RETURN(const auto samplings, options_.store->ScanMeta(kSamplingKind, run));
    TakeUp(actions, samplings);
    return OkStatus();
  }

  void TakeUpImported(const std::string& run) {
    const Status status = TakeUp(run);
    if (status.ok()) return;
    LogWarning("server/control", "an imported run's actions cannot be read; the next start takes them up",
               {{"run", run}, {"error", status}});
  }

  void TakeUp(const std::vector<LoggedAction>& actions, const std::vector<store::MetaEntry>& samplings) {
    for (const LoggedAction& action : actions) {
      if (!IsOver(action.record.state())) deliveries_.HandOn(action);
      Follow(action);
    }
    for (const store::MetaEntry& entry : samplings) {
      v1::Sampling sampling;
      if (sampling.ParseFromString(entry.value)) Send({entry.run, entry.key}, sampling);
    }
  }

  void Send(const AttemptName& name, const v1::Sampling& sampling) {
    options_.outbox->SetSampling(name.first, name.second,
                                 {sampling.attention_every_steps(), sampling.spectra_every_steps(),
                                  sampling.projections_every_steps(), sampling.row_stride()});
  }

  // --- following: the observer marks attempts, the thread reads their events from the store

  // Effects are waited for after "taken" too; what is refused, expired or measured may still be amended.
  void Follow(const LoggedAction& action) {
    std::lock_guard lock(mutex_);
    const AttemptName name(action.run, action.record.action().attempt());
    const int64_t expiry = action.record.action().expiry_step();
    int64_t& next = next_expiry_.try_emplace(name, std::numeric_limits<int64_t>::max()).first->second;
    if (expiry > 0) next = std::min(next, expiry);
    dirty_.insert(name);
    changed_.notify_all();
  }

  void Mark(const AttemptName& name) {
    std::lock_guard lock(mutex_);
    if (!next_expiry_.contains(name)) return;
    dirty_.insert(name);
    changed_.notify_all();
  }

  void OnEvent(const store::Origin& origin, const std::shared_ptr<const wire::Event>& event) override {
    if (event->kind == wire::EventKind::kAction) Mark({origin.run, origin.attempt});
  }
  void OnGoodbye(const store::Origin& origin, const std::shared_ptr<const wire::Goodbye>&) override {
    Mark({origin.run, origin.attempt});
  }
  void OnSource(const store::Origin& origin, const wire::Hello&) override {
    // A new attempt ends what was proposed to the others.
    std::lock_guard lock(mutex_);
    for (const auto& [name, expiry] : next_expiry_) {
      if (name.first == origin.run) dirty_.insert(name);
    }
    changed_.notify_all();
  }
  void OnRunImported(const std::string& run) override {
    std::lock_guard lock(mutex_);
    imported_.insert(run);
    changed_.notify_all();
  }
  void OnMergedFrame(const store::Origin& origin, const std::shared_ptr<const wire::Frame>& frame,
                     bool) override {
    std::lock_guard lock(mutex_);
    if (next_expiry_.empty()) return;
    const auto it = next_expiry_.find({origin.run, origin.attempt});
    if (it == next_expiry_.end() || frame->step < it->second) return;
    it->second = std::numeric_limits<int64_t>::max();
    dirty_.insert(it->first);
    changed_.notify_all();
  }

  void Run() {
    constexpr std::chrono::milliseconds kLook(500);  // for what is due, where something is
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const auto woken = [this] {
        return stopping_ || !dirty_.empty() || !imported_.empty() || asked_ > done_;
      };
      if (look_again_.empty()) {
        changed_.wait(lock, woken);
      } else {
        changed_.wait_for(lock, kLook, woken);
      }
      const uint64_t asked = asked_;
      std::set<std::string> imported;
      imported.swap(imported_);
      lock.unlock();
      for (const std::string& run : imported) TakeUpImported(run);
      lock.lock();
      MarkWhatIsDue();
      std::set<AttemptName> names;
      names.swap(dirty_);
      lock.unlock();
      for (const AttemptName& name : names) Update(name);
      lock.lock();
      done_ = asked;
      changed_.notify_all();
    }
  }

  void MarkWhatIsDue() {
    const int64_t now = options_.clock->MonotonicNanos();
    for (auto it = look_again_.begin(); it != look_again_.end();) {
      if (it->second > now) {
        ++it;
        continue;
      }
      dirty_.insert(it->first);
      it = look_again_.erase(it);
    }
  }

  void LookAgain(const AttemptName& name, int64_t at_ns) {
    std::lock_guard lock(mutex_);
    int64_t& at = look_again_.try_emplace(name, at_ns).first->second;
    at = std::min(at, at_ns);
  }

  void Update(const AttemptName& name) {
    const auto run = options_.store->GetRun(name.first);
    const auto attempt = options_.store->GetAttempt(name.first, name.second);
    const auto events = options_.store->ReadEvents(name.first, name.second);
    const auto actions = ReadActions(*options_.store, name.first);
    if (!run.ok() || !attempt.ok() || !events.ok() || !actions.ok()) return Forget(name);
    const auto state = store::StateOf(*attempt, 0, std::numeric_limits<int64_t>::max());
    const bool over = state != store::RunState::kRunning || run->newest().attempt != name.second;
    const int64_t last_step = attempt->last_step.value_or(0);
    int64_t next = std::numeric_limits<int64_t>::max();
    for (const LoggedAction& logged : *actions) {
      if (logged.record.action().attempt() != name.second) continue;
      LoggedAction now = logged;
      Derive(*events, &now.record);
      if (Expires(now.record, last_step, over)) Expire(last_step, over, &now.record);
      if (now.record.two_phase()) Agree(*attempt, *events, &now);
      const int64_t expiry = now.record.action().expiry_step();
      if (!IsOver(now.record.state()) && expiry > last_step) next = std::min(next, expiry);
      if (!Keep(logged, now)) continue;
      const bool done = over || IsDone(now.record, *attempt, *events);
      done ? deliveries_.TakeBack(now) : deliveries_.HandOn(now);
    }
    std::lock_guard lock(mutex_);
    const auto it = next_expiry_.find(name);
    if (it != next_expiry_.end()) it->second = next;
  }

  void Agree(const store::AttemptInfo& attempt, const std::vector<store::StoredEvent>& events,
             LoggedAction* logged) {
    const v1::Action& action = logged->record.action();
    const bool waits = logged->record.state() == v1::ACTION_STATE_PROPOSED;
    const int64_t deadline = waits ? deliveries_.Deadline(action.id()) : 0;
    const bool overdue = options_.clock->MonotonicNanos() >= deadline;
    const int64_t step = EarliestSwitch(attempt, action.effective_step());
    if (Conclude(attempt, events, overdue, step, &logged->record))
      LookAgain({logged->run, action.attempt()}, deadline);
  }

  int64_t EarliestSwitch(const store::AttemptInfo& attempt, int64_t asked) const {
    return SwitchStep(attempt, asked, options_.clock->WallNanos());
  }

  // Nobody needs to hear of it any more.
  static bool IsDone(const v1::ActionRecord& record, const store::AttemptInfo& attempt,
                     const std::vector<store::StoredEvent>& events) {
    const v1::ActionState state = record.state();
    if (state == v1::ACTION_STATE_EXPIRED || state == v1::ACTION_STATE_WITHDRAWN) return true;
    return IsOver(state) && IsSettled(record.action().id(), attempt, events);
  }

  static void Log(const char* what, const LoggedAction& logged) {
    const v1::Action& action = logged.record.action();
    LogInfo("server/control", what,
            {{"run", logged.run},
             {"attempt", action.attempt()},
             {"action", action.id()},
             {"kind", action.kind()},
             {"issuer", action.issuer()},
             {"detail", logged.record.note().empty() ? logged.record.detail() : logged.record.note()}});
  }

  static void Expire(int64_t last_step, bool over, v1::ActionRecord* record) {
    record->set_state(v1::ACTION_STATE_EXPIRED);
    record->set_state_step(last_step);
    record->set_detail(over ? "the attempt was over before the trainer took it"
                            : "not taken before step " + std::to_string(record->action().expiry_step()));
  }

  // False: it could not be written, and must not be acted on. The events are durable: the next look derives
  // the same.
  bool Keep(const LoggedAction& before, const LoggedAction& now) {
    if (before.record.SerializeAsString() == now.record.SerializeAsString()) return true;
    const v1::Action& action = now.record.action();
    const Status status = WriteAction(options_.store, now);
    if (!status.ok()) {
      LogWarning("server/control", "an action's progress cannot be written, trying again later",
                 {{"run", now.run}, {"action", action.id()}, {"error", status}});
      constexpr int64_t kRetryNanos = 1'000'000'000;
      LookAgain({now.run, action.attempt()}, options_.clock->MonotonicNanos() + kRetryNanos);
      return false;
    }
    if (before.record.state() != now.record.state()) TellOfDecision(now);
    return true;
  }

  void TellOfDecision(const LoggedAction& now) {
    const v1::ActionState state = now.record.state();
    if (state != v1::ACTION_STATE_COMMITTED && state != v1::ACTION_STATE_WITHDRAWN) return;
    const bool committed = state == v1::ACTION_STATE_COMMITTED;
    Log(committed ? "action committed" : "action withdrawn", now);
    if (options_.audit == nullptr) return;
    options_.audit->Add({0, "server", committed ? "action_committed" : "action_withdrawn", now.run,
                         now.record.action().id(), now.record.action().kind() + ": " + now.record.detail()});
  }

  void Forget(const AttemptName& name) {
    std::lock_guard lock(mutex_);
    next_expiry_.erase(name);
  }

  const ControlOptions options_;
  Deliveries deliveries_;
  std::mutex mutex_;  // guards all below, down to asked_ and done_
  std::condition_variable changed_;
  std::mt19937_64 random_;
  int64_t last_id_time_ = 0;
  std::map<AttemptName, int64_t> next_expiry_;  // attempts with actions -> step at which one may expire
  std::set<AttemptName> dirty_;
  std::set<std::string> imported_;             // runs whose actions came in an archive
  std::map<AttemptName, int64_t> look_again_;  // monotonic time at which one is dirty by itself
  bool stopping_ = false;
  uint64_t asked_ = 0, done_ = 0;  // flushes
  std::unique_ptr<store::Subscription> subscription_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Controls>> Controls::Start(const ControlOptions& options) {
  auto controls = std::make_unique<ControlsImpl>(options);
  FS_RETURN_IF_ERROR(controls->Begin());
  return std::unique_ptr<Controls>(std::move(controls));
}

}  // namespace foreshock::control
