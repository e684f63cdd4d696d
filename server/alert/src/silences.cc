#include "foreshock/server/alert/silences.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "foreshock/base/logging.h"
#include "foreshock/server/detect/user_rule.h"
#include "silence_archive.h"

namespace foreshock::alert {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kDayNs = 86'400 * kSecondNs;
constexpr int64_t kKeptAfterEndNs = 30 * kDayNs;
constexpr size_t kMostText = 1000, kMostName = 256;
constexpr size_t kIdDigits = 16;
constexpr size_t kMostAdoptedOver = 10'000;
constexpr double kUsualAcknowledgementSeconds = 86'400;

Status CheckText(const char* field, const std::string& text, size_t most) {
  if (text.size() <= most) return OkStatus();
  return Status(Code::kInvalidArgument, std::string(field) + ": " + std::to_string(text.size()) +
                                            " bytes, at most " + std::to_string(most));
}

Status CheckSilence(const Silence& s, int64_t now) {
  const bool covers_something = !s.run.empty() || !s.rule.empty() || s.severity || s.layer || s.head;
  if (!covers_something) {
    return Status(Code::kInvalidArgument,
                  "run: empty, and so are rule, severity, layer and head: name one (run * is every run)");
  }
  FS_RETURN_IF_ERROR(CheckText("run", s.run, kMostName));
  FS_RETURN_IF_ERROR(CheckText("rule", s.rule, kMostName));
  FS_RETURN_IF_ERROR(CheckText("author", s.author, kMostName));
  FS_RETURN_IF_ERROR(CheckText("comment", s.comment, kMostText));
  if (s.ends_unix_ns <= std::max(s.starts_unix_ns, now)) {
    return Status(Code::kInvalidArgument, "ends: not after the start, or past already");
  }
  if (s.ends_unix_ns - s.starts_unix_ns > Silences::kLongestDays * kDayNs ||
      s.starts_unix_ns - now > Silences::kLongestDays * kDayNs) {
    return Status(Code::kInvalidArgument,
                  "ends: more than " + std::to_string(Silences::kLongestDays) + " days away");
  }
  return OkStatus();
}

class SilencesImpl final : public Silences, public AlertListener {
 public:
  explicit SilencesImpl(const SilenceOptions& options) : options_(options) {}
  ~SilencesImpl() override { subscription_.reset(); }

  Status Begin() {
    FS_ASSIGN_OR_RETURN(const auto entries, options_.store->ScanMeta(kSilenceKind, ""));
    for (const store::MetaEntry& entry : entries) {
      auto silence = SilenceFrom(entry);
      if (!silence.ok()) {
        LogWarning("server/alert", "a silence in the store is not readable and is left out",
                   {{"silence", entry.key}, {"error", silence.status()}});
        continue;
      }
      all_[entry.key] = *std::move(silence);
    }
    // First to listen, then to look: what resolves in between is heard.
    subscription_ = options_.alerts->Subscribe(this);
    std::vector<std::string> firing;
    for (const AlertRecord& record : options_.alerts->Firing()) firing.push_back(record.alert.id);
    std::lock_guard lock(mutex_);
    Purge();
    for (auto& [id, silence] : all_) {
      const bool fires = std::find(firing.begin(), firing.end(), silence.alert) != firing.end();
      if (silence.acknowledgement && !fires && !Over(silence)) End(&silence, "resolved").IgnoreError();
    }
    return OkStatus();
  }

  Result<Silence> Create(Silence wanted) override {
    std::lock_guard lock(mutex_);
    wanted.acknowledgement = false;
    wanted.alert.clear();
    return Add(std::move(wanted));
  }

  Result<std::vector<Silence>> Acknowledge(const AcknowledgeOptions& ask) override {
    if (ask.run.empty()) return Status(Code::kInvalidArgument, "run: empty, name a run");
    const double seconds = ask.seconds == 0 ? kUsualAcknowledgementSeconds : ask.seconds;
    FS_RETURN_IF_ERROR(CheckSilenceLength(seconds));
    std::vector<Alert> meant;
    for (const AlertRecord& record : options_.alerts->Firing()) {
      const Alert& alert = record.alert;
      const bool fits = alert.run == ask.run && (ask.alert.empty() || alert.id == ask.alert) &&
                        (ask.rule.empty() || detect::MatchesPattern(ask.rule, alert.rule));
      if (fits) meant.push_back(alert);
    }
    if (meant.empty()) {
      return Status(Code::kNotFound, "run " + ask.run + ": no alert fires" +
                                         (ask.alert.empty() ? "" : " with the id " + ask.alert) +
                                         (ask.rule.empty() ? "" : " of the rule " + ask.rule));
    }
    std::lock_guard lock(mutex_);
    std::vector<Silence> made;
    for (const Alert& alert : meant) {
      if (Acknowledged(alert.id)) continue;
      FS_ASSIGN_OR_RETURN(Silence silence, Add(AcknowledgementOf(alert, ask, seconds)));
      made.push_back(std::move(silence));
    }
    return made;
  }

  Result<Silence> Expire(const std::string& id, const std::string& who) override {
    FS_RETURN_IF_ERROR(CheckText("author", who, kMostName));
    std::lock_guard lock(mutex_);
    const auto it = all_.find(id);
    if (it == all_.end()) return Status(Code::kNotFound, "id: no silence " + id);
    if (!Over(it->second)) FS_RETURN_IF_ERROR(End(&it->second, who.empty() ? "operator" : who));
    return it->second;
  }

  std::vector<Silence> List(bool with_expired) const override {
    std::lock_guard lock(mutex_);
    std::vector<Silence> list;
    for (auto it = all_.rbegin(); it != all_.rend(); ++it) {  // ids rise with time
      if (with_expired || !Over(it->second)) list.push_back(it->second);
    }
    return list;
  }

  std::vector<Silence> Of(const Alert& alert) const override {
    std::lock_guard lock(mutex_);
    const int64_t now = options_.clock->WallNanos();
    std::vector<Silence> list;
    for (const auto& [id, silence] : all_) {
      if (StateOf(silence, now) != SilenceState::kActive || !Covers(silence, alert)) continue;
      list.insert(silence.acknowledgement ? list.begin() : list.end(), silence);
    }
    return list;
  }

  std::vector<store::MetaEntry> EntriesOf(const std::string& run) const override {
    std::lock_guard lock(mutex_);
    std::vector<store::MetaEntry> entries;
    for (const auto& [id, silence] : all_) {
      if (silence.run == run) entries.push_back(ToEntry(silence));
    }
    return entries;
  }

  Result<bool> Adopt(const std::string& run, const store::MetaEntry& entry) override {
    FS_ASSIGN_OR_RETURN(Silence silence, SilenceFrom(entry));
    FS_RETURN_IF_ERROR(CheckOf(run, silence));
    const bool minted =
        entry.key.size() == kIdDigits && entry.key.find_first_not_of("0123456789abcdef") == entry.key.npos;
    if (entry.kind != kSilenceKind || !entry.run.empty() || !minted)
      return Status(Code::kInvalidArgument, "silence: its key is no id of one: '" + entry.key + "'");
    for (const std::string* name : {&silence.run, &silence.rule, &silence.author, &silence.attempt})
      FS_RETURN_IF_ERROR(CheckText("silence", *name, kMostName));
    FS_RETURN_IF_ERROR(CheckText("comment", silence.comment, kMostText));
    // By these a target's silences are ended: whoever copies asks the target anew what it has.
    silence.copies.clear();
    std::lock_guard lock(mutex_);
    if (all_.contains(silence.id)) return false;
    Purge();
    const bool over = Over(silence);
    const auto alike =
        std::count_if(all_.begin(), all_.end(), [&](const auto& item) { return Over(item.second) == over; });
    if (static_cast<size_t>(alike) >= (over ? kMostAdoptedOver : kMostActive)) {
      if (over) return false;
      return Status(Code::kResourceExhausted,
                    "silences: " + std::to_string(kMostActive) + " hold already, let some expire");
    }
    const store::MetaEntry entries[] = {ToEntry(silence)};
    FS_RETURN_IF_ERROR(options_.store->PutMeta(entries));
    all_[silence.id] = std::move(silence);
    ++version_;
    return true;
  }

  void SetCopy(const std::string& id, const std::string& target, const std::string& state) override {
    std::lock_guard lock(mutex_);
    const auto it = all_.find(id);
    if (it == all_.end() || it->second.copies[target] == state) return;
    it->second.copies[target] = state;
    const store::MetaEntry entries[] = {ToEntry(it->second)};
    // After a restart the target is asked what it has.
    options_.store->PutMeta(entries).IgnoreError();
  }

  uint64_t version() const override { return version_; }

  void OnAlert(const AlertRecord& record) override {
    if (record.alert.state != AlertState::kResolved) return;
    std::lock_guard lock(mutex_);
    for (auto& [id, silence] : all_) {
      if (!silence.acknowledgement || silence.alert != record.alert.id || Over(silence)) continue;
      const Status status = End(&silence, "resolved");
      if (!status.ok()) {
        LogWarning("server/alert", "an acknowledgement's end cannot be written; the next start ends it",
                   {{"silence", id}, {"error", status}});
      }
    }
  }

 private:
  static Silence AcknowledgementOf(const Alert& alert, const AcknowledgeOptions& ask, double seconds) {
    Silence s;
    s.acknowledgement = true;
    s.run = alert.run;
    s.rule = alert.rule;
    s.attempt = alert.attempt;
    s.severity = alert.severity;
    if (alert.layer >= 0) s.layer = alert.layer;
    if (alert.head >= 0) s.head = alert.head;
    s.alert = alert.id;
    s.author = ask.author;
    s.comment = ask.comment;
    s.ends_unix_ns = static_cast<int64_t>(std::ceil(seconds)) * kSecondNs;  // from its start, see Add
    return s;
  }

  // What an archive of a run may bring: silences of this run and acknowledgements of its alerts, of times
  // that can be; ids are times, and new ones rise from the last.
  Status CheckOf(const std::string& run, const Silence& s) const {
    const bool of_alert = s.acknowledgement || !s.alert.empty();
    if (s.run != run || (of_alert && !s.alert.starts_with(run + "/")))
      return Status(Code::kInvalidArgument, "silence " + s.id + ": of run '" + s.run + "' and alert '" +
                                                s.alert + "', and not of '" + run + "' alone");
    const int64_t latest = options_.clock->WallNanos() + kDayNs;
    const uint64_t minted = std::strtoull(s.id.c_str(), nullptr, 16);
    const bool possible = minted <= static_cast<uint64_t>(latest) && s.created_unix_ns >= 0 &&
                          s.created_unix_ns <= latest && s.starts_unix_ns >= 0 &&
                          s.starts_unix_ns <= latest + kLongestDays * kDayNs && s.ends_unix_ns >= 0 &&
                          s.ends_unix_ns <= latest + 2 * kLongestDays * kDayNs;
    return possible ? OkStatus()
                    : Status(Code::kInvalidArgument, "silence " + s.id + ": of a time more than a day ahead");
  }

  bool Over(const Silence& silence) const {
    return StateOf(silence, options_.clock->WallNanos()) == SilenceState::kExpired;
  }

  bool Acknowledged(const std::string& alert_id) const {
    return std::any_of(all_.begin(), all_.end(), [&](const auto& item) {
      return item.second.acknowledgement && item.second.alert == alert_id && !Over(item.second);
    });
  }

  Result<Silence> Add(Silence s) {
    const int64_t now = options_.clock->WallNanos();
    Purge();
    if (s.author.empty()) s.author = "operator";
    s.created_unix_ns = now;
    if (s.starts_unix_ns <= now) s.starts_unix_ns = now;
    if (s.acknowledgement) s.ends_unix_ns += now;
    s.ended_by.clear();
    s.copies.clear();
    FS_RETURN_IF_ERROR(CheckSilence(s, now));
    const auto active =
        std::count_if(all_.begin(), all_.end(), [this](const auto& item) { return !Over(item.second); });
    if (static_cast<size_t>(active) >= kMostActive) {
      return Status(Code::kResourceExhausted,
                    "silences: " + std::to_string(kMostActive) + " hold already, let some expire");
    }
    s.id = MintId(now);
    FS_RETURN_IF_ERROR(Write(s, s.acknowledgement ? "alert_acknowledged" : "silence_created", s.author));
    ++version_;
    all_[s.id] = s;
    return s;
  }

  Status End(Silence* silence, const std::string& who) {
    Silence ended = *silence;
    ended.ended_by = who;
    ended.ends_unix_ns = std::max(options_.clock->WallNanos(), ended.created_unix_ns);
    FS_RETURN_IF_ERROR(
        Write(ended, ended.acknowledgement ? "acknowledgement_ended" : "silence_expired", who));
    *silence = std::move(ended);
    ++version_;
    return OkStatus();
  }

  // The silence and its line of the trail, both or none.
  Status Write(const Silence& silence, const char* what, const std::string& who) {
    const bool one_run = silence.run.find_first_of("*?") == std::string::npos || silence.acknowledgement;
    std::string detail = ScopeText(silence);
    if (!silence.comment.empty()) detail += ": " + silence.comment;
    const store::MetaEntry entries[] = {
        ToEntry(silence),
        options_.audit->Prepare({0, who, what, one_run ? silence.run : "", silence.id, std::move(detail)})};
    return options_.store->PutMeta(entries);
  }

  // Sixteen hexadecimal digits of time: ids rise.
  std::string MintId(int64_t now) {
    int64_t value = now;
    if (!all_.empty())
      value = std::max(value, static_cast<int64_t>(std::stoull(all_.rbegin()->first, nullptr, 16)) + 1);
    char text[24];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
    return text;
  }

  void Purge() {
    const int64_t now = options_.clock->WallNanos();
    for (auto it = all_.begin(); it != all_.end();) {
      if (now - it->second.ends_unix_ns <= kKeptAfterEndNs) {
        ++it;
        continue;
      }
      options_.store->DeleteMeta(kSilenceKind, "", it->first).IgnoreError();  // tried again later
      it = all_.erase(it);
    }
  }

  const SilenceOptions options_;
  mutable std::mutex mutex_;            // guards all_
  std::map<std::string, Silence> all_;  // by id
  std::atomic<uint64_t> version_{0};
  std::unique_ptr<store::Subscription> subscription_;
};

}  // namespace

SilenceState StateOf(const Silence& silence, int64_t now_unix_ns) {
  // What somebody ended stays ended, whatever the clock says later.
  if (!silence.ended_by.empty() || now_unix_ns >= silence.ends_unix_ns) return SilenceState::kExpired;
  return now_unix_ns < silence.starts_unix_ns ? SilenceState::kPending : SilenceState::kActive;
}

Status CheckSilenceLength(double seconds) {
  constexpr double kMost = static_cast<double>(Silences::kLongestDays) * 86'400;
  if (seconds > 0 && seconds <= kMost) return OkStatus();
  return Status(Code::kInvalidArgument, "seconds: " + std::to_string(seconds) + ", more than 0, at most " +
                                            std::to_string(Silences::kLongestDays) + " days");
}

bool Covers(const Silence& s, const Alert& alert) {
  if (s.acknowledgement || !s.alert.empty()) return s.alert == alert.id && s.run == alert.run;
  return (s.run.empty() || detect::MatchesPattern(s.run, alert.run)) &&
         (s.rule.empty() || detect::MatchesPattern(s.rule, alert.rule)) &&
         (!s.severity || *s.severity == alert.severity) && (!s.layer || *s.layer == alert.layer) &&
         (!s.head || *s.head == alert.head);
}

Result<std::unique_ptr<Silences>> Silences::Start(const SilenceOptions& options) {
  auto silences = std::make_unique<SilencesImpl>(options);
  FS_RETURN_IF_ERROR(silences->Begin());
  return std::unique_ptr<Silences>(std::move(silences));
}

}  // namespace foreshock::alert
