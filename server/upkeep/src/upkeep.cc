#include "foreshock/server/upkeep/upkeep.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "due.h"
#include "foreshock/base/logging.h"

namespace foreshock::upkeep {
namespace {

constexpr char kLog[] = "server/upkeep";
constexpr double kDaySeconds = 86'400;
constexpr size_t kMostNameBytes = 100;
constexpr std::string_view kUnfinished = ".tmp";  // how RocksDB names a copy that is not finished
constexpr int64_t kJumpNs = 60'000'000'000;
constexpr int64_t kHourNs = 3'600'000'000'000;

int64_t Nanos(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

std::string NameOf(const std::string& issuer) { return issuer.empty() ? "operator" : issuer; }

Status CheckName(const std::string& name) {
  const bool good = !name.empty() && name.size() <= kMostNameBytes && name[0] != '.' &&
                    !std::string_view(name).ends_with(kUnfinished) &&
                    std::all_of(name.begin(), name.end(), IsNameCharacter);
  if (good) return OkStatus();
  return Status(
      Code::kInvalidArgument,
      "name: \"" + name +
          "\", must be 1 to 100 of A-Z a-z 0-9 . _ - and neither begin with a dot nor end with .tmp");
}

class UpkeepImpl final : public Upkeep {
 public:
  explicit UpkeepImpl(const UpkeepOptions& options) : options_(options) {
    rules_.keep_ns = Nanos(options.keep_days * kDaySeconds);
    rules_.quiet_ns = Nanos(options.quiet_seconds);
    rules_.silent_after_ns = Nanos(options.silent_after_seconds);
    wall_ns_ = options.clock->WallNanos();
    trusted_since_ns_ = monotonic_ns_ = options.clock->MonotonicNanos();
    if (rules_.keep_ns > 0 || options.keep_bytes > 0) thread_ = std::thread([this] { Work(); });
  }
  ~UpkeepImpl() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  Status DeleteRun(const std::string& run, bool force, const std::string& issuer) override {
    FS_ASSIGN_OR_RETURN(const store::RunInfo info, options_.store->GetRun(run));
    if (!force && IsGoingOn(info, std::max(rules_.silent_after_ns, kHourNs), TakeNow())) {
      return Status(
          Code::kFailedPrecondition,
          "run: " + run +
              " is going on, or was within the hour: stop its trainer first, or force the deletion");
    }
    return Delete(info, "by hand, " + NameOf(issuer), &Counters::deleted_by_hand, force);
  }

  Result<BackupInfo> Backup(const std::string& name, const std::string& issuer) override {
    FS_RETURN_IF_ERROR(CheckName(name));
    if (options_.backup_folder.empty()) {
      return Status(Code::kFailedPrecondition,
                    "backup_folder: none given to the server, no backup can be written");
    }
    const std::unique_lock one(backup_mutex_, std::try_to_lock);
    if (!one.owns_lock()) return Status(Code::kFailedPrecondition, "backup: another one is being written");
    BackupInfo info;
    info.folder = options_.backup_folder + "/" + name;
    const Result<uint64_t> bytes = options_.store->Backup(info.folder);
    if (!bytes.ok()) {
      Count(&Counters::failures);
      LogError(kLog, "backup failed",
               {{"folder", info.folder}, {"by", NameOf(issuer)}, {"error", bytes.status()}});
      return bytes.status();
    }
    info.bytes = *bytes;
    Count(&Counters::backups);
    LogInfo(kLog, "backup written", {{"folder", info.folder}, {"by", NameOf(issuer)}, {"bytes", info.bytes}});
    return info;
  }

  void Sweep() override {
    std::lock_guard one(sweep_mutex_);
    const Now now = TakeNow();
    if (!Trusted(now.unix_ns)) return;
    for (const store::RunInfo& run : TooOld(options_.store->ListRuns(), rules_, now)) {
      Delete(run, "older than keep_days", &Counters::deleted_by_age, false).IgnoreError();
    }
    SweepBySize(now);
  }

  Counters counters() const override {
    std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, options_.tick, [this] { return stopping_; })) {
      lock.unlock();
      Sweep();
      lock.lock();
    }
  }

  Now TakeNow() const { return {options_.clock->WallNanos(), options_.store->listening()}; }

  // Whether ages can be told: this server has listened for long enough, and the wall clock has not jumped
  // meanwhile.
  bool Trusted(int64_t wall_ns) {
    const int64_t monotonic_ns = options_.clock->MonotonicNanos();
    const int64_t jump_ns = (wall_ns - wall_ns_) - (monotonic_ns - monotonic_ns_);
    if (std::abs(jump_ns) > kJumpNs) {
      Count(&Counters::clock_jumps);
      trusted_since_ns_ = monotonic_ns;
      LogWarning(kLog, "the clock jumped: no run is deleted by age or size for a while",
                 {{"seconds", jump_ns / 1'000'000'000}, {"for_seconds", options_.quiet_seconds}});
    }
    wall_ns_ = wall_ns;
    monotonic_ns_ = monotonic_ns;
    return monotonic_ns - trusted_since_ns_ >= rules_.quiet_ns;
  }

  void SweepBySize(const Now& now) {
    if (options_.keep_bytes == 0) return;
    const store::Store::Stats stats = options_.store->stats();
    const bool over = stats.history_bytes > options_.keep_bytes;
    // What was deleted still counts until its space is back: another one too many would be lost for good.
    if (over && stats.runs_being_freed > 0) return;
    bool stuck = false;
    if (over) {
      const auto run = Quietest(options_.store->ListRuns(), rules_, now);
      stuck = !run;
      if (run) {
        Delete(*run, "the history is larger than keep_bytes", &Counters::deleted_by_size, false)
            .IgnoreError();
      }
    }
    std::lock_guard lock(mutex_);
    if (stuck && !counters_.over_size) {
      LogWarning(kLog, "the history is larger than keep_bytes, and no run may be deleted",
                 {{"bytes", stats.history_bytes}, {"keep_bytes", options_.keep_bytes}});
    }
    counters_.over_size = stuck;
  }

  // Of a run that was looked at: unless forced, only when nothing of it came since.
  Status Delete(const store::RunInfo& seen, const std::string& why, uint64_t Counters::*counter, bool force) {
    const auto same = [&seen](const store::RunInfo& now) { return SameAs(seen, now); };
    const Status status =
        force ? options_.store->DeleteRun(seen.run) : options_.store->DeleteRun(seen.run, same);
    if (status.ok()) {
      Count(counter);
      LogInfo(kLog, "run deleted", {{"run", seen.run}, {"why", why}});
    } else if (status.code() != Code::kNotFound && status.code() != Code::kFailedPrecondition) {
      Count(&Counters::failures);
      LogError(kLog, "run not deleted", {{"run", seen.run}, {"why", why}, {"error", status}});
    }
    return status;
  }

  void Count(uint64_t Counters::*counter) {
    std::lock_guard lock(mutex_);
    ++(counters_.*counter);
  }

  const UpkeepOptions options_;
  KeepRules rules_;
  std::mutex backup_mutex_;
  std::mutex sweep_mutex_;                  // guards the three below
  int64_t wall_ns_ = 0, monotonic_ns_ = 0;  // at the last sweep
  int64_t trusted_since_ns_ = 0;            // by the monotonic clock
  mutable std::mutex mutex_;                // guards the two below
  Counters counters_;
  bool stopping_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Upkeep> Upkeep::Start(const UpkeepOptions& options) {
  return std::make_unique<UpkeepImpl>(options);
}

}  // namespace foreshock::upkeep
