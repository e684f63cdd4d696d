#include "store_impl.h"

#include "frames_here.h"
#include "keys.h"

namespace foreshock::store {
namespace {

std::string NumberValue(uint32_t number) { return std::to_string(number); }

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  FS_ASSIGN_OR_RETURN(std::unique_ptr<Database> database, Database::Open(options));
  auto store = std::make_unique<StoreImpl>(std::move(database), options);
  FS_RETURN_IF_ERROR(store->Load().Annotate("data folder " + options.folder));
  store->Start();
  return std::unique_ptr<Store>(std::move(store));
}

void StoreImpl::Start() {
  if (options_.seal_steps == 0) return;
  sealer_ =
      std::make_unique<Sealer>(Sealer::Work{.start = [this] { LookAtAll(); },
                                            .full = [this](const FramesOf& source) { SealFull(source); },
                                            .tick = [this] { Tick(); }},
                               options_.tick);
}

// Frames that are far ahead of the sealer would be written to table files, and again without them: to wait a
// moment costs less. An ailing sealer is idle.
void StoreImpl::WaitForSealer() {
  constexpr uint64_t kGroupsBehind = 3;
  constexpr std::chrono::milliseconds kAtMost{100};
  if (sealer_ != nullptr && most_open_ >= kGroupsBehind * options_.seal_steps + options_.keep_open_steps)
    sealer_->WaitUntilIdle(kAtMost);
}

StoreImpl::~StoreImpl() {
  stopping_ = true;
  db_->StopCompacting();
  sealer_.reset();
}

Result<SourceInfo> StoreImpl::OpenSource(const wire::Hello& hello, int64_t now_unix_ns) {
  if (hello.attempt.empty()) return Status(Code::kInvalidArgument, "attempt: empty");
  std::lock_guard write(write_mutex_);
  Registry next;  // only what changes: the run of this source
  {
    std::shared_lock lock(registry_mutex_);
    next.next_run = registry_.next_run;
    if (const RunEntry* run = registry_.FindRun(hello.run)) next.runs[run->number] = *run;
  }
  Batch batch;
  const SourceInfo* known = nullptr;
  if (!next.runs.empty()) {
    const AttemptEntry* attempt = next.runs.begin()->second.FindAttempt(hello.attempt);
    if (attempt != nullptr) known = attempt->FindIncarnation(hello.rank, hello.incarnation);
  }
  bool changes = known == nullptr;
  SourceInfo source;
  std::vector<std::string> marks;
  if (known == nullptr) {
    source = NewSource(hello, now_unix_ns, &next, &batch);
    // Another process of the one rank leaves nothing to merge.
    if (next.FindAttempt(source.id.run, source.id.attempt)->world_size() > 1)
      FS_RETURN_IF_ERROR(MarkOldSteps(source.id, &batch, &marks));
  } else {
    source = *known;
    wire::Hello said = hello;
    said.world_size = known->hello->world_size;  // a process ends in the world that it began in
    changes = said != *known->hello;
    source.hello = std::make_shared<const wire::Hello>(std::move(said));
    next.FindAttempt(source.id.run, source.id.attempt)->Enter(source);
  }
  if (changes) {
    batch.Put(SourceKey(Table::kSource, source.id), EncodeSource(source));
    // Not synced: thousands of trainers that begin together would wait for each other's disk writes. The
    // first record's synced write covers what stands before it in the log, and until then nothing of this
    // source was acknowledged.
    FS_RETURN_IF_ERROR(db_->Write(batch, false));
    for (const std::string& mark : marks) marks_[mark] = stamp_;
  }
  // What an import entered is not synced yet, and its sender is about to be told of it.
  if (known != nullptr && import_unsynced_) {
    Batch again;
    again.Put(SourceKey(Table::kSource, source.id), EncodeSource(source));
    FS_RETURN_IF_ERROR(db_->Write(again, true));
    import_unsynced_ = false;
  }
  {
    std::unique_lock lock(registry_mutex_);
    registry_.next_run = next.next_run;
    RunEntry& changed = next.runs.begin()->second;
    registry_.runs[changed.number] = std::move(changed);
  }
  const Origin origin = OriginOf(source.id);
  observers_.Each([&](Observer& observer) { observer.OnSource(origin, *source.hello); });
  return source;
}

// Enters run, attempt and source where they are missing.
SourceInfo StoreImpl::NewSource(const wire::Hello& hello, int64_t now_unix_ns, Registry* registry,
                                Batch* batch) {
  if (registry->runs.empty()) {
    RunEntry run;
    run.number = registry->next_run++;
    run.name = hello.run;
    run.first_unix_ns = now_unix_ns;
    batch->Put(NextRunKey(), NumberValue(registry->next_run));
    batch->Put(RunKey(run.number), EncodeRun(run));
    registry->runs[run.number] = run;
  }
  RunEntry& run = registry->runs.begin()->second;
  const AttemptEntry* found = run.FindAttempt(hello.attempt);
  if (found == nullptr) {
    AttemptEntry attempt;
    attempt.number = run.attempts.empty() ? 1 : run.attempts.rbegin()->first + 1;
    attempt.name = hello.attempt;
    attempt.source = hello.attempt_source;
    attempt.first_unix_ns = now_unix_ns;
    batch->Put(AttemptKey(run.number, attempt.number), EncodeAttempt(attempt));
    found = &(run.attempts[attempt.number] = attempt);
  }
  AttemptEntry& attempt = run.attempts[found->number];
  SourceInfo source;
  source.id = {run.number, attempt.number, hello.rank, attempt.next_incarnation()};
  source.hello = std::make_shared<const wire::Hello>(hello);
  source.first_unix_ns = source.last_unix_ns = now_unix_ns;
  attempt.Enter(source);
  return source;
}

// When an attempt of one rank grows, the frames it has become frames to merge.
Status StoreImpl::MarkOldSteps(const SourceId& source, Batch* batch, std::vector<std::string>* marks) {
  {
    std::shared_lock lock(registry_mutex_);
    const AttemptEntry* before = registry_.FindAttempt(source.run, source.attempt);
    if (before == nullptr || before->world_size() > 1) return OkStatus();
  }
  const FramesOf frames{source.run, source.attempt, 0};
  FS_ASSIGN_OR_RETURN(const Layouts::Look look, layouts_.See(frames));
  return EachFrameHere(look, frames, [&](const FrameHere& frame) {
    marks->push_back(UnmergedKey(source.run, source.attempt, frame.step));
    batch->Put(marks->back(), {});
  });
}

Origin StoreImpl::OriginOf(const SourceId& id) const {
  std::shared_lock lock(registry_mutex_);
  Origin origin;
  origin.source = id;
  const auto run = registry_.runs.find(id.run);
  if (run == registry_.runs.end()) return origin;
  origin.run = run->second.name;
  const auto attempt = run->second.attempts.find(id.attempt);
  if (attempt != run->second.attempts.end()) origin.attempt = attempt->second.name;
  return origin;
}

Status StoreImpl::DeleteRun(const std::string& run, const std::function<bool(const RunInfo&)>& only_if) {
  std::lock_guard write(write_mutex_);
  uint32_t number = 0;
  {
    std::shared_lock lock(registry_mutex_);
    FS_ASSIGN_OR_RETURN(const RunEntry* entry, registry_.Run(run));
    number = entry->number;
    if (only_if && !only_if(ToInfo(*entry)))
      return Status(Code::kFailedPrecondition, "run: " + run + " is not what it was");
  }
  Batch batch;
  const auto drop = [&](const std::string& prefix) { batch.DeleteRange(prefix, PrefixEnd(prefix)); };
  for (const Table table : {Table::kRun, Table::kAttempt, Table::kSource, Table::kCounters, Table::kFrame,
                            Table::kEvent, Table::kQuarantine, Table::kUnmerged, Table::kGroup, Table::kChunk,
                            Table::kRollup, Table::kRollupColumn, Table::kKept}) {
    drop(TableRunPrefix(table, number));
  }
  drop(MetaRunPrefix(run));
  FS_RETURN_IF_ERROR(db_->Write(batch, true));
  const std::string marks = TableRunPrefix(Table::kUnmerged, number);
  marks_.erase(marks_.lower_bound(marks), marks_.lower_bound(PrefixEnd(marks)));
  {
    std::unique_lock lock(registry_mutex_);
    registry_.runs.erase(number);
  }
  layouts_.Forget(number);
  recent_.Forget(number);
  deleted_.push_back(number);
  deleted_count_ = deleted_.size();
  observers_.Each([&](Observer& observer) { observer.OnRunDeleted(run); });
  return OkStatus();
}

std::vector<RunInfo> StoreImpl::ListRuns() const {
  std::shared_lock lock(registry_mutex_);
  std::vector<RunInfo> runs;
  for (auto it = registry_.runs.rbegin(); it != registry_.runs.rend(); ++it)
    runs.push_back(ToInfo(it->second));
  return runs;
}

size_t StoreImpl::CountRuns() const {
  std::shared_lock lock(registry_mutex_);
  return registry_.runs.size();
}

Result<RunInfo> StoreImpl::GetRun(const std::string& run) const {
  std::shared_lock lock(registry_mutex_);
  FS_ASSIGN_OR_RETURN(const RunEntry* entry, registry_.Run(run));
  return ToInfo(*entry);
}

Result<AttemptInfo> StoreImpl::GetAttempt(const std::string& run, const std::string& attempt) const {
  std::shared_lock lock(registry_mutex_);
  FS_ASSIGN_OR_RETURN(const auto found, registry_.Attempt(run, attempt));
  return ToInfo(*found.first, *found.second);
}

Result<SourceInfo> StoreImpl::GetSource(const SourceId& id) const {
  std::shared_lock lock(registry_mutex_);
  const SourceInfo* source = registry_.FindSource(id);
  if (source == nullptr) return Status(Code::kNotFound, "source: not there, its run was deleted");
  return *source;
}

Result<std::vector<Store::Unmerged>> StoreImpl::UnmergedSteps() const {
  std::vector<Unmerged> steps;
  FS_RETURN_IF_ERROR(
      db_->Scan(TablePrefix(Table::kUnmerged), {}, [&](std::string_view key, std::string_view) {
        if (const auto parts = ParseUnmergedKey(key)) steps.push_back({parts->source, parts->step});
        return true;
      }));
  return steps;
}

Status StoreImpl::Beat(int64_t now_unix_ns) {
  int64_t none = 0;
  listening_since_ns_.compare_exchange_strong(none, now_unix_ns);
  Batch batch;
  batch.Put(AliveKey(), std::to_string(now_unix_ns));
  return db_->Write(batch, false);
}

Listening StoreImpl::listening() const {
  const int64_t since = listening_since_ns_;
  return since == 0 ? Listening{} : Listening{alive_before_ns_, since};
}

Store::Stats StoreImpl::stats() const {
  Stats stats;
  stats.wal_bytes = db_->wal_bytes();
  stats.disk_bytes = stats.wal_bytes + db_->file_bytes();
  stats.history_bytes = stats.wal_bytes + db_->live_file_bytes();
  stats.cache_bytes = db_->cache_bytes();
  stats.index_bytes = db_->index_bytes();
  stats.buffer_bytes = db_->buffer_bytes();
  stats.synced_writes = db_->synced_writes();
  stats.records = records_;
  stats.sealed_frames = sealed_frames_;
  stats.runs_being_freed = deleted_count_;
  stats.seal_failures = trouble_.count(Trouble::kSealing);
  stats.rollup_failures = trouble_.count(Trouble::kRollups);
  stats.compaction_failures = trouble_.count(Trouble::kCompaction);
  return stats;
}

}  // namespace foreshock::store
