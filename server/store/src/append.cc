// Appending: what of a batch is new, one atomic synced write, then the observers.
#include <algorithm>

#include "foreshock/server/store/parts.h"
#include "keys.h"
#include "run_import.h"

namespace foreshock::store {
namespace {

constexpr size_t kKeyBytes = 64;  // of a record in a batch, with what stands around it

}  // namespace

Result<std::vector<AppendOutcome>> StoreImpl::AppendRecords(std::span<const Append> records) {
  WaitForSealer();
  std::lock_guard write(write_mutex_);
  most_open_ = 0;
  size_t bytes = 0;
  for (const Append& record : records) bytes += record.payload.size() + kKeyBytes;
  append_batch_.Clear(bytes);
  Pending pending(append_batch_);
  for (const Append& record : records) pending.outcomes.push_back(Plan(record, &pending));
  for (const auto& [id, source] : pending.sources) {
    pending.batch.Put(SourceKey(Table::kCounters, id), EncodeCounters(source));
  }
  for (const auto& [mark, stamp] : pending.marks) pending.batch.Put(mark, {});
  // Mere repetitions cost no write: their count goes with the next one.
  if (pending.changes) {
    for (const auto& [source, step] : pending.frames) WillAppend(source, step);
    FS_RETURN_IF_ERROR(db_->Write(pending.batch, true));
  }
  for (auto& [mark, stamp] : pending.marks) marks_[mark] = stamp;
  ++stamp_;
  {
    std::unique_lock lock(registry_mutex_);
    for (auto& [id, source] : pending.sources) *registry_.FindSource(id) = std::move(source);
  }
  Publish(records, pending.outcomes);
  return std::move(pending.outcomes);
}

// The sealer learns of the frame before it is there: a reader looks for open frames from the step that it is
// told on.
void StoreImpl::WillAppend(const FramesOf& source, int64_t step) {
  const uint64_t open = layouts_.WillAppend(source, step);
  most_open_ = std::max<uint64_t>(most_open_, open);
  if (sealer_ != nullptr && open >= options_.seal_steps + options_.keep_open_steps) sealer_->Wake(source);
}

AppendOutcome StoreImpl::Plan(const Append& record, Pending* pending) {
  auto it = pending->sources.find(record.source);
  if (it == pending->sources.end()) {
    std::shared_lock lock(registry_mutex_);
    const SourceInfo* source = registry_.FindSource(record.source);
    if (source == nullptr) return AppendOutcome::kNoSource;
    it = pending->sources.emplace(record.source, *source).first;
  }
  SourceInfo& source = it->second;
  const uint64_t seq = record.head.seq;
  if (seq <= source.durable_seq) {
    ++source.duplicates;
    return AppendOutcome::kDuplicate;
  }
  pending->changes = true;
  const uint64_t missing = seq - source.durable_seq - 1;
  // No more than there are numbers missing, whatever the sender says: it may not know that what it gave up
  // arrived.
  const uint64_t declared = std::min(record.head.dropped_before, missing);
  source.dropped += declared;
  source.gaps += missing - declared;
  source.durable_seq = seq;
  source.last_unix_ns = std::max(source.last_unix_ns, record.received_unix_ns);
  source.last_sent_unix_ns = std::max(source.last_sent_unix_ns, record.sent_unix_ns);
  if (record.clock_skew_ns) source.clock_skew_ns = *record.clock_skew_ns;
  if (!record.quarantine.empty()) {
    ++source.quarantined;
    pending->batch.Put(QuarantineKey(record.source, seq),
                       QuarantineValue(record.type, record.quarantine, record.payload));
    return AppendOutcome::kQuarantined;
  }
  PlanGood(record, &source, pending);
  return AppendOutcome::kStored;
}

void StoreImpl::PlanGood(const Append& record, SourceInfo* source, Pending* pending) {
  const SourceId& id = record.source;
  const int64_t step = record.head.step;
  switch (record.type) {
    case wire::RecordType::kFrame: {
      ++source->frames;
      source->first_step = std::min(source->first_step.value_or(step), step);
      source->last_step = std::max(source->last_step.value_or(step), step);
      pending->batch.Put(FrameKey(id, step, record.head.seq), record.payload);
      pending->frames.emplace_back(FramesOf{id.run, id.attempt, id.rank}, step);
      std::shared_lock lock(registry_mutex_);
      if (registry_.FindAttempt(id.run, id.attempt)->world_size() > 1) {
        pending->marks[UnmergedKey(id.run, id.attempt, step)] = stamp_ + 1;
      }
      return;
    }
    case wire::RecordType::kEvent:
      ++source->events;
      pending->batch.Put(EventKey(id, step, record.head.seq), record.payload);
      return;
    case wire::RecordType::kGoodbye:
      if (record.goodbye != nullptr) source->goodbye = *record.goodbye;
      return;
    default:
      return;
  }
}

void StoreImpl::Publish(std::span<const Append> records, const std::vector<AppendOutcome>& outcomes) {
  for (size_t i = 0; i < records.size(); ++i) {
    if (outcomes[i] != AppendOutcome::kStored) continue;
    ++records_;
    const Append& record = records[i];
    if (record.frame != nullptr && sealer_ != nullptr)
      recent_.Add(record.source, record.head.step, record.head.seq, record.frame,
                  record.frame_bytes > 0 ? record.frame_bytes : MemoryOf(*record.frame));
    const Origin origin = OriginOf(record.source);
    observers_.Each([&](Observer& observer) {
      if (record.frame != nullptr) observer.OnFrame(origin, record.frame);
      if (record.event != nullptr) observer.OnEvent(origin, record.event);
      if (record.goodbye != nullptr) observer.OnGoodbye(origin, record.goodbye);
    });
  }
}

uint32_t StoreImpl::WorldOf(const SourceId& attempt) const {
  std::shared_lock lock(registry_mutex_);
  const AttemptEntry* entry = registry_.FindAttempt(attempt.run, attempt.attempt);
  return entry == nullptr ? 0 : entry->world_size();
}

Status StoreImpl::PutMergedFrames(std::span<const Merged> frames) {
  std::lock_guard write(write_mutex_);
  Batch batch;
  std::vector<std::string> cleared;
  std::vector<std::pair<FramesOf, int64_t>> written;
  bool changes = false;
  for (const Merged& merged : frames) {
    const SourceId id{merged.attempt.run, merged.attempt.attempt, kMerged, 0};
    const uint32_t world = WorldOf(id);
    if (world == 0) continue;
    if (world > 1) {
      changes = true;
      batch.Put(FrameKey(id, merged.frame->step, 0), wire::Encode(*merged.frame));
      written.emplace_back(FramesOf{id.run, id.attempt, kMerged}, merged.frame->step);
    }
    const auto mark = marks_.find(UnmergedKey(id.run, id.attempt, merged.frame->step));
    if (mark == marks_.end() || mark->second > merged.as_of) continue;
    changes = true;
    batch.Delete(mark->first);
    cleared.push_back(mark->first);
  }
  if (changes) {
    for (const auto& [source, step] : written) WillAppend(source, step);
    FS_RETURN_IF_ERROR(db_->Write(batch, false));
  }
  for (const std::string& mark : cleared) marks_.erase(mark);
  for (RunImportImpl* import : imports_) {
    for (const auto& [source, step] : written) import->SawMerged(source, step);
  }
  for (const Merged& merged : frames) {
    const SourceId id{merged.attempt.run, merged.attempt.attempt, kMerged, 0};
    const uint32_t world = WorldOf(id);
    if (world == 0) continue;
    if (world > 1 && sealer_ != nullptr)
      recent_.Add(id, merged.frame->step, 0, merged.frame, MemoryOf(*merged.frame));
    const Origin origin = OriginOf(id);
    observers_.Each(
        [&](Observer& observer) { observer.OnMergedFrame(origin, merged.frame, merged.amended); });
  }
  return OkStatus();
}

Status StoreImpl::PutNothingMerged(const SourceId& attempt, int64_t step, uint64_t as_of) {
  std::lock_guard write(write_mutex_);
  const auto mark = marks_.find(UnmergedKey(attempt.run, attempt.attempt, step));
  if (mark == marks_.end() || mark->second > as_of) return OkStatus();
  Batch batch;
  batch.Delete(mark->first);
  FS_RETURN_IF_ERROR(db_->Write(batch, false));
  marks_.erase(mark);
  return OkStatus();
}

}  // namespace foreshock::store
