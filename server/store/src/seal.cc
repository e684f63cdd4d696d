// Sealing: open frames of a source become a group of columns.
//
// The frames are durable already; sealing only gives them another form, in one batch that is not logged.
// Whatever a crash takes away of it, it takes away whole: then the frames are still open.
#include <set>
#include <utility>

#include "foreshock/base/logging.h"
#include "foreshock/wire/codec.h"
#include "seal_plan.h"
#include "store_impl.h"

namespace foreshock::store {
namespace {

// Tables of a run that hold nearly all of its bytes.
constexpr Table kLargeTables[] = {Table::kFrame, Table::kChunk, Table::kRollupColumn,
                                  Table::kKept,  Table::kEvent, Table::kQuarantine};

// What may be left of a deleted run: a block that it shares with a neighbour.
constexpr uint64_t kFreedBytes = 64 << 10;
constexpr size_t kMaxBytesAtOnce = 24u << 20;  // of frames read for one group
constexpr uint32_t kRowsWhenQuiet = 16;        // tails of fewer steps stay open

void AddGroup(const FramesOf& source, uint32_t seal, uint32_t incarnation, GroupBuilder* builder,
              Batch* batch, Layouts::Change* change) {
  SealedGroup group;
  group.first = builder->first_step();
  group.last = builder->last_step();
  group.seal = seal;
  group.incarnation = incarnation;
  group.rows = static_cast<uint32_t>(builder->size());
  const SourceId id{source.run, source.attempt, source.rank, 0};
  batch->Put(GroupKey(Table::kGroup, id, group.first, seal), EncodeGroup(group));
  const std::string prefix = GroupKey(Table::kChunk, id, group.first, seal);
  std::string key;
  builder->Encode([&](const ColumnName& name, std::string_view bytes) {
    key = prefix;
    AppendColumn(name, &key);
    batch->Put(key, bytes);
  });
  change->groups.push_back(group);
}

// What is still known decoded need not be copied and decoded, if it is what is stored.
OpenRecord OpenedAs(const FrameKeyParts& key, std::string_view value,
                    std::shared_ptr<const wire::Frame> frame) {
  if (frame != nullptr && wire::EncodesTo(*frame, value) && !LacksHeads(*frame))
    return {key, {}, std::move(frame)};
  return {key, std::string(value), nullptr};
}

}  // namespace

// The lowest step that still waits for its merge: it is read soon, and stays open until then.
int64_t StoreImpl::FirstUnmerged(const FramesOf& source) const {
  if (source.rank == kMerged) return kNever;
  const auto it = marks_.lower_bound(UnmergedKey(source.run, source.attempt, kFirstStep));
  if (it == marks_.end()) return kNever;
  const auto parts = ParseUnmergedKey(it->first);
  const bool ours = parts && parts->source.run == source.run && parts->source.attempt == source.attempt;
  return ours ? parts->step : kNever;
}

bool StoreImpl::IsNewestRecord(const FrameKeyParts& key) const {
  std::shared_lock lock(registry_mutex_);
  const SourceInfo* info = registry_.FindSource(key.source);
  return info != nullptr && info->durable_seq <= key.seq;
}

Result<bool> StoreImpl::SealOnce(const FramesOf& source, uint32_t least_rows) {
  std::lock_guard one_at_a_time(seal_mutex_);
  std::optional<Layouts::Sealing> start;
  int64_t unmerged = kNever;
  {
    std::lock_guard write(write_mutex_);
    FS_ASSIGN_OR_RETURN(Layouts::Sealing sealing, layouts_.StartSealing(source));
    start.emplace(std::move(sealing));
    unmerged = FirstUnmerged(source);
  }
  start->look.view.ReadOnce();
  const uint64_t generation = start->look.view.generation();
  const uint32_t keep = options_.keep_open_steps;
  std::vector<OpenRecord> records;
  std::vector<int64_t> steps;
  size_t bytes = 0;
  bool more = false;
  FS_RETURN_IF_ERROR(
      start->look.view.Scan(FramePrefix(source.run, source.attempt, source.rank),
                            FramePrefix(source.run, source.attempt, source.rank, start->look.open_from),
                            [&](std::string_view key, std::string_view value) {
                              const auto parts = ParseFrameKey(key);
                              if (!parts || parts->step >= unmerged) return false;
                              if (steps.empty() || steps.back() != parts->step) {
                                more = steps.size() >= options_.seal_steps + keep || bytes > kMaxBytesAtOnce;
                                steps.push_back(parts->step);
                              }
                              if (more) return false;
                              bytes += value.size();
                              // Those behind are only counted.
                              if (steps.size() <= options_.seal_steps)
                                records.push_back(OpenedAs(*parts, value, recent_.Find(*parts)));
                              return true;
                            }));
  start->look.groups.reset();
  const size_t available = steps.size() - (more ? 1 : 0);
  const size_t take = available > keep ? std::min<size_t>(available - keep, options_.seal_steps) : 0;
  if (take == 0 || (take < least_rows && bytes <= kMaxBytesAtOnce)) return false;
  const int64_t beyond = take < steps.size() ? steps[take] : kNever;
  std::erase_if(records, [&](const OpenRecord& record) { return record.key.step >= beyond; });
  SealPlan plan = PlanSealing(
      records, [this](const FrameKeyParts& key) { return IsNewestRecord(key); }, options_.seal_steps);
  if (plan.closed.empty()) return false;

  Batch& batch = seal_batch_;
  batch.Clear(0);
  Layouts::Change change;
  uint32_t seal = start->next_seal;
  for (auto& [incarnation, builder] : plan.groups) {
    AddGroup(source, seal++, incarnation, &builder, &batch, &change);
  }
  for (const size_t i : plan.kept) {
    const FrameKeyParts& key = records[i].key;
    batch.Put(FrameKey(Table::kKept, key.source, key.step, key.seq),
              KeptValue(start->next_seal, PayloadOf(records[i])));
  }
  for (const size_t i : plan.closed) {
    const FrameKeyParts& key = records[i].key;
    batch.Delete(FrameKey(key.source, key.step, key.seq));
  }
  if (!plan.closed.empty()) {
    const int64_t first = records[plan.closed.front()].key.step, last = records[plan.closed.back()].key.step;
    FS_ASSIGN_OR_RETURN(const Database::View view, db_->Look());
    FS_RETURN_IF_ERROR(DropRollups(view, source, first, last, &batch));
  }
  change.kept = !plan.kept.empty();
  change.frames = plan.closed.size();
  // Past a step that waits for its merge nothing was looked at.
  change.open_from = std::min(beyond, unmerged);
  for (const int64_t step : plan.left) change.open_from = std::min(change.open_from, step);
  start.reset();

  std::lock_guard write(write_mutex_);
  {
    std::shared_lock lock(registry_mutex_);
    if (registry_.FindAttempt(source.run, source.attempt) == nullptr) return false;
  }
  // A merged frame may have been written anew under the key that is about to be deleted.
  if (source.rank == kMerged && layouts_.LeastSinceStart(source) <= records.back().key.step) return true;
  FS_RETURN_IF_ERROR(layouts_.Sealed(source, generation, db_.get(), batch, change));
  recent_.Drop(source, change.open_from);
  sealed_frames_ += plan.closed.size();
  sealed_bytes_ += bytes;
  unsettled_ = true;
  return true;
}

void StoreImpl::SealFull(const FramesOf& source) {
  while (!stopping_) {
    const Result<bool> sealed = SealOnce(source, options_.seal_steps);
    trouble_.Note(Trouble::kSealing, sealed.status());
    if (!sealed.ok() || !*sealed) return;
    Roll(source);
  }
}

std::vector<FramesOf> StoreImpl::AllSources() const {
  std::shared_lock lock(registry_mutex_);
  std::set<FramesOf> sources;
  for (const auto& [number, run] : registry_.runs) {
    for (const auto& [attempt_number, attempt] : run.attempts) {
      for (const auto& [key, source] : attempt.sources) sources.insert({number, attempt_number, key.first});
      if (attempt.world_size() > 1) sources.insert({number, attempt_number, kMerged});
    }
  }
  return {sources.begin(), sources.end()};
}

Status StoreImpl::Settle() {
  for (const FramesOf& source : AllSources()) {
    for (bool go_on = true; go_on;) {
      FS_ASSIGN_OR_RETURN(go_on, SealOnce(source, 1));
    }
    for (bool go_on = true; go_on;) {
      FS_ASSIGN_OR_RETURN(go_on, RollOnce(source));
    }
  }
  unsettled_ = false;
  FS_RETURN_IF_ERROR(db_->Flush());
  FS_RETURN_IF_ERROR(DropSealed());
  return DropDeleted();
}

// Frames that are sealed may stand in files beside the notes of their deletion.
Status StoreImpl::DropSealed() {
  sealed_bytes_ = 0;
  const std::string frames = TablePrefix(Table::kFrame);
  return db_->Compact(frames, PrefixEnd(frames));
}

// Bytes of files that hold entries of runs, from one to another (not included).
uint64_t StoreImpl::LargeBytesOf(uint32_t from, uint32_t to) const {
  uint64_t bytes = 0;
  for (const Table table : kLargeTables)
    bytes += db_->FileBytesOf(TableRunPrefix(table, from), TableRunPrefix(table, to));
  return bytes;
}

// Runs that were deleted and whose space was not back when the server ended.
void StoreImpl::FindDeleted() {
  uint32_t from = 1;
  const auto look_until = [&](uint32_t to) {
    if (from < to && LargeBytesOf(from, to) > kFreedBytes) {
      for (uint32_t run = from; run < to; ++run) {
        if (LargeBytesOf(run, run + 1) > kFreedBytes) deleted_.push_back(run);
      }
    }
    from = to + 1;
  };
  for (const auto& [number, run] : registry_.runs) look_until(number);
  look_until(registry_.next_run);
  deleted_count_ = deleted_.size();
}

// Gives back the space of deleted runs. Where a reader still looks at a time before the deletion, or writing
// fails, the next tick tries again.
Status StoreImpl::DropDeleted() {
  std::vector<uint32_t> runs;
  {
    std::lock_guard write(write_mutex_);
    runs = deleted_;
  }
  for (const uint32_t run : runs) {
    for (const Table table : kLargeTables) {
      const std::string prefix = TableRunPrefix(table, run);
      FS_RETURN_IF_ERROR(db_->Compact(prefix, PrefixEnd(prefix), true));
    }
    if (LargeBytesOf(run, run + 1) > kFreedBytes) continue;
    std::lock_guard write(write_mutex_);
    std::erase(deleted_, run);
    deleted_count_ = deleted_.size();
  }
  return OkStatus();
}

// What stood open when the server ended is known to the sealer again.
void StoreImpl::LookAtAll() {
  for (const FramesOf& source : AllSources()) {
    if (stopping_) return;
    layouts_.See(source).IgnoreError();
  }
}

// Seals the tails of sources of which nothing came since the last tick.
void StoreImpl::Tick() {
  layouts_.CountAgain();
  std::map<FramesOf, uint64_t> open;
  for (const Layouts::Open& source : layouts_.ListOpen()) {
    open[source.source] = source.frames;
    const auto before = open_before_.find(source.source);
    const bool quiet = before != open_before_.end() && before->second == source.frames;
    if (stopping_ || !quiet || source.frames <= options_.keep_open_steps) continue;
    SealFull(source.source);  // a folder of the first version may have any number
    if (!stopping_) trouble_.Note(Trouble::kSealing, SealOnce(source.source, kRowsWhenQuiet).status());
  }
  open_before_ = std::move(open);
  {
    // What nobody adds to is gathered again when somebody does.
    std::lock_guard one_at_a_time(seal_mutex_);
    for (auto it = rolling_.begin(); it != rolling_.end();)
      it = std::exchange(it->second.touched, false) ? std::next(it) : rolling_.erase(it);
  }
  const uint64_t records = records_;
  const bool quiet = records == records_before_;
  if (quiet && unsettled_.exchange(false)) {
    const Status flushed = db_->Flush();
    trouble_.Note(Trouble::kCompaction, flushed);
    if (!flushed.ok()) unsettled_ = true;
  }
  // Compaction rewrites more than it frees: not for little.
  if (quiet && sealed_bytes_ > options_.write_buffer_bytes) trouble_.Note(Trouble::kCompaction, DropSealed());
  trouble_.Note(Trouble::kCompaction, DropDeleted());
  records_before_ = records;
}

}  // namespace foreshock::store
