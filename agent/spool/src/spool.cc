#include "foreshock/agent/spool.h"

#include <algorithm>

#include "ack_file.h"
#include "foreshock/base/shares.h"
#include "segment_index_file.h"
#include "spool_format.h"
#include "spool_impl.h"

namespace foreshock::agent {
namespace {

// A small active segment that is all acknowledged is closed and deleted from this size on, so that a nearly
// idle spool gives its space back.
constexpr uint64_t kIdleSegmentBytes = uint64_t{4} << 20;
constexpr uint64_t kMinimumLimitBytes = uint64_t{64} << 10;
constexpr size_t kMaxPositions = 4096;

uint64_t BatchBytes(const Source& source, std::span<const SpoolItem> items) {
  uint64_t bytes = 0;
  for (const SpoolItem& item : items) bytes += item.payload.size() + kDataOverhead + kLogRecordOverhead;
  // It may have to begin a segment and declare the source.
  return bytes + kLogHeaderBytes + 3 * kLogRecordOverhead + 64 + source.key.run.size() +
         source.key.attempt.size() + source.hello.size();
}

SourceInfo InfoOf(const Source& source) {
  return {source.key, source.hello, source.durable_seq, source.acked_seq, source.attached > 0};
}

Status CheckItems(std::span<const SpoolItem> items) {
  for (const SpoolItem& item : items) {
    if (item.type >= kFirstReservedType) {
      return Status(Code::kInvalidArgument, "type: " + std::to_string(item.type) + ", at most " +
                                                std::to_string(kFirstReservedType - 1));
    }
    if (item.payload.size() + kDataOverhead > kMaxLogPayloadBytes) {
      return Status(Code::kInvalidArgument, "record: " + std::to_string(item.payload.size()) +
                                                " bytes, at most " +
                                                std::to_string(kMaxLogPayloadBytes - kDataOverhead));
    }
  }
  return OkStatus();
}

}  // namespace

std::string Spool::Impl::SegmentPath(uint64_t number) const { return JoinPath(dir, SegmentName(number)); }

Spool::Spool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Spool>> Spool::Open(FileSystem& fs, const std::string& dir,
                                           const SpoolOptions& options, SpoolRecovery* recovery) {
  *recovery = SpoolRecovery{};
  if (options.limit_bytes < kMinimumLimitBytes) {
    return Status(Code::kInvalidArgument, "spool limit: " + std::to_string(options.limit_bytes) +
                                              " bytes, at least " + std::to_string(kMinimumLimitBytes));
  }
  SpoolOptions checked = options;
  checked.segment_bytes = std::clamp<uint64_t>(options.segment_bytes, 4096, options.limit_bytes / 8);
  auto impl = std::make_unique<Impl>(fs, dir, checked);
  FS_RETURN_IF_ERROR(CreateDirs(fs, dir));
  FS_ASSIGN_OR_RETURN(impl->file_lock, fs.Lock(JoinPath(dir, "LOCK")));
  std::string warning;
  const AckedSeqs acked = ReadAckFile(fs, dir, &warning);
  if (!warning.empty()) recovery->warnings.push_back(warning);
  SegmentsFound found;
  FS_RETURN_IF_ERROR(FindSegments(fs, dir, acked, &found, recovery));
  impl->index = std::move(found.index);
  if (!impl->index.segments.empty()) impl->last_number = impl->index.segments.rbegin()->first;
  std::vector<uint64_t> dead;
  impl->CollectDead(&dead);
  impl->DeleteSegments(dead);
  FS_RETURN_IF_ERROR(impl->SyncAll());
  uint64_t pending = 0;
  for (const auto& [key, source] : impl->index.sources) pending += source->pending();
  for (const auto& [key, source] : impl->index.sources) {
    source->bytes = pending == 0 ? 0 : impl->index.bytes / pending * source->pending();
  }
  for (const auto& [key, seq] : acked) impl->RememberPosition(key, seq);
  for (const auto& [key, source] : impl->index.sources) {
    impl->positions.erase(key);
    if (source->idle()) impl->RememberPosition(key, source->durable_seq);
  }
  std::erase_if(impl->index.sources, [](const auto& entry) { return entry.second->idle(); });
  for (uint64_t number : found.scanned) impl->WriteIndexFile(number);
  return std::unique_ptr<Spool>(new Spool(std::move(impl)));
}

// The process before may have been killed between a write and its sync. What was found is promised to
// trainers from here on (OpenSource, repetitions), so it must be on the disk, not in the kernel's memory
// alone.
Status Spool::Impl::SyncAll() {
  for (const auto& [number, segment] : index.segments) {
    FS_ASSIGN_OR_RETURN(const auto file, fs.OpenAppend(SegmentPath(number)));
    FS_RETURN_IF_ERROR(file->Sync());
  }
  return fs.SyncDir(dir);
}

Spool::~Spool() {
  if (impl_->active != 0) impl_->WriteIndexFile(impl_->active);
  std::unique_lock lock(impl_->mutex);
  impl_->PersistAcks(lock, true);
}

Result<uint64_t> Spool::OpenSource(const SourceKey& key, std::string_view hello) {
  std::lock_guard lock(impl_->mutex);
  std::shared_ptr<Source>& source = impl_->index.sources[key];
  if (source == nullptr) {
    source = std::make_shared<Source>();
    source->key = key;
    if (const auto position = impl_->positions.find(key); position != impl_->positions.end()) {
      source->durable_seq = source->acked_seq = position->second;
      impl_->positions.erase(position);
    }
    ++impl_->generation;
    impl_->changed.notify_all();
  }
  if (source->hello != hello) {
    source->hello = hello;
    ++source->hello_version;
  }
  ++source->attached;
  return source->durable_seq;
}

void Spool::CloseSource(const SourceKey& key) {
  std::lock_guard lock(impl_->mutex);
  const auto source = impl_->index.FindSource(key);
  if (source == nullptr || source->attached == 0) return;
  --source->attached;
  impl_->ForgetIfIdle(source);
}

Status Spool::Append(const SourceKey& key, std::span<const SpoolItem> items) {
  FS_RETURN_IF_ERROR(CheckItems(items));
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  Batch batch;
  batch.source = impl.index.FindSource(key);
  if (batch.source == nullptr || batch.source->attached == 0)
    return Status(Code::kNotFound, "source: " + key.ToString() + " is not open");
  batch.items = items;
  batch.bytes = BatchBytes(*batch.source, items);
  const uint64_t most = impl.options.limit_bytes - impl.options.limit_bytes / 16;
  if (batch.bytes > most) {
    return Status(Code::kInvalidArgument, "batch: " + std::to_string(batch.bytes) +
                                              " bytes, the whole spool holds " + std::to_string(most) +
                                              " of a run");
  }
  FS_RETURN_IF_ERROR(impl.CheckRoom(*batch.source, batch.bytes));
  impl.reserved_bytes += batch.bytes;
  impl.waiting.push_back(&batch);
  while (!batch.done) {
    if (impl.committing) {
      impl.committed.wait(lock);
    } else {
      impl.Commit(lock);
    }
  }
  impl.reserved_bytes -= batch.bytes;
  return batch.status;
}

// base/shares.h, by run: one that sends much cannot keep others out for as long as the server is away.
Status Spool::Impl::CheckRoom(const Source& source, uint64_t bytes) {
  const uint64_t limit = options.limit_bytes, taken = index.bytes + reserved_bytes;
  if (taken + bytes <= limit / 2) return OkStatus();  // without counting
  uint64_t own = 0;
  std::set<std::string_view> runs;
  for (const auto& [key, other] : index.sources) {
    if (other->idle()) continue;
    runs.insert(key.run);
    if (key.run == source.key.run) own += other->bytes;
  }
  switch (RoomFor(bytes, own, taken, limit, runs.size())) {
    case Room::kFree:
      return OkStatus();
    case Room::kFull:
      ++counters.refused_limit;
      return Status(Code::kResourceExhausted, "spool " + dir + ": " + std::to_string(taken) + " of " +
                                                  std::to_string(limit) + " bytes are in use");
    case Room::kShare:
      break;
  }
  ++counters.refused_share;
  return Status(Code::kResourceExhausted, "spool " + dir + ": run '" + source.key.run +
                                              "' holds its share, " + std::to_string(limit / runs.size()) +
                                              " bytes of " + std::to_string(limit) + " with " +
                                              std::to_string(runs.size()) + " runs");
}

void Spool::Impl::Commit(std::unique_lock<std::mutex>& lock) {
  committing = true;
  std::vector<Batch*> group;
  group.swap(waiting);
  lock.unlock();
  std::vector<Written> written;
  uint64_t repeated = 0;
  const Status status = WriteGroup(group, &written, &repeated);
  if (!status.ok() && writer != nullptr && writer->broken()) AbandonActive();
  lock.lock();
  FinishGroup(group, status, written, repeated);
  committing = false;
  committed.notify_all();
}

Status Spool::Impl::WriteGroup(const std::vector<Batch*>& group, std::vector<Written>* written,
                               uint64_t* repeated) {
  FS_RETURN_IF_ERROR(OpenActive());
  std::map<const Source*, uint64_t> last_seqs;
  for (const Batch* batch : group) FS_RETURN_IF_ERROR(WriteBatch(*batch, &last_seqs, written, repeated));
  if (written->empty()) return OkStatus();
  const Status synced = writer->Sync();
  if (!synced.ok()) {
    for (auto& [source, entry] : declared) entry.written = false;
  }
  return synced;
}

Status Spool::Impl::WriteBatch(const Batch& batch, std::map<const Source*, uint64_t>* last_seqs,
                               std::vector<Written>* written, uint64_t* repeated) {
  Source& source = *batch.source;
  uint32_t id = 0;
  uint64_t& last = (*last_seqs)[&source];
  {
    std::lock_guard lock(mutex);
    last = std::max(last, source.durable_seq);
    FS_ASSIGN_OR_RETURN(id, Declare(batch.source));
  }
  for (const SpoolItem& item : batch.items) {
    if (item.seq <= last) {
      ++*repeated;
      continue;
    }
    EncodeData(id, item.seq, item.payload, &scratch);
    const uint64_t offset = writer->next_offset();
    FS_RETURN_IF_ERROR(writer->Append(item.type, scratch));
    written->push_back({batch.source, id, item.seq, offset, writer->next_offset() - offset});
    last = item.seq;
  }
  return OkStatus();
}

// The source's id in the active segment; declares it there when it is new or has a new hello. Called with the
// lock held, because the hello may be replaced at any time; the log only collects.
Result<uint32_t> Spool::Impl::Declare(const std::shared_ptr<Source>& source) {
  Declared& entry = declared[source];
  if (entry.id == 0) entry.id = next_id++;
  if (entry.written && entry.hello_version == source->hello_version) return entry.id;
  FS_RETURN_IF_ERROR(writer->Append(kSourceType, EncodeSource(entry.id, source->key, source->hello)));
  entry.written = true;
  entry.hello_version = source->hello_version;
  return entry.id;
}

// Makes sure that there is an active segment with room.
Status Spool::Impl::OpenActive() {
  if (writer != nullptr && writer->size() > 0 && writer->size() < options.segment_bytes) return OkStatus();
  // Also one that could never be written to: a new one is no worse.
  AbandonActive();
  const int64_t now_ns = options.clock->WallNanos();
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex);
    number = last_number + 1;
  }
  LogRecovery recovery;
  FS_ASSIGN_OR_RETURN(auto opened,
                      AppendLogWriter::Open(fs, SegmentPath(number), kSegmentKind, nullptr, &recovery));
  FS_RETURN_IF_ERROR(opened->Append(kSegmentType, EncodeSegment(now_ns)));
  std::lock_guard lock(mutex);
  writer = std::move(opened);
  active = last_number = number;
  Segment& segment = index.segments[number];
  segment.number = number;
  segment.created_unix_ns = now_ns;
  return OkStatus();
}

// Closes the active segment. What a failed sync left behind its durable end is cut off, as far as the disk
// lets us; where it does not, the records there are repetitions of later ones.
void Spool::Impl::AbandonActive() {
  if (writer == nullptr) return;
  const bool broken = writer->broken();
  writer.reset();
  declared.clear();
  uint64_t number = 0;
  uint64_t bytes = 0;
  std::vector<uint64_t> dead;
  {
    std::lock_guard lock(mutex);
    number = active;
    active = 0;
    Segment& segment = index.segments[number];
    segment.sealed = true;
    bytes = segment.bytes;
    CollectDead(&dead);
  }
  if (broken && bytes > 0) fs.Truncate(SegmentPath(number), bytes).IgnoreError();
  DeleteSegments(dead);
  WriteIndexFile(number);
}

// Of a sealed segment with pending records. Failing here only makes a start slower.
void Spool::Impl::WriteIndexFile(uint64_t number) {
  SegmentIndex file;
  {
    std::lock_guard lock(mutex);
    file = IndexOfSegment(index, number);
  }
  if (!file.entries.empty()) WriteSegmentIndex(fs, dir, number, file).IgnoreError();
}

void Spool::Impl::FinishGroup(const std::vector<Batch*>& group, const Status& status,
                              const std::vector<Written>& written, uint64_t repeated) {
  ++counters.syncs;
  if (status.ok()) {
    counters.repeated += repeated;
    counters.appended += written.size();
    if (active != 0 && !written.empty()) {
      Segment& segment = index.segments[active];
      index.bytes += writer->size() - segment.bytes;
      segment.bytes = writer->size();
      for (const Written& record : written) {
        AddRecord(*record.source, segment, record.id, record.seq, record.offset);
        record.source->bytes += record.bytes;
      }
    }
    readable.notify_all();
  } else {
    counters.refused_disk += group.size();
  }
  for (Batch* batch : group) {
    batch->status = status;
    batch->done = true;
  }
}

void Spool::Acknowledge(const SourceKey& key, uint64_t seq) {
  Impl& impl = *impl_;
  std::unique_lock lock(impl.mutex);
  const auto source = impl.index.FindSource(key);
  if (source == nullptr) return;
  if (seq <= source->acked_seq) return;
  // More than is known here: the server has it from an earlier life of the source, which this spool has
  // forgotten. What the trainer repeats of it is durable already, and nobody would acknowledge it a second
  // time.
  const uint64_t before = source->pending();
  source->durable_seq = std::max(source->durable_seq, seq);
  source->acked_seq = seq;
  source->bytes = before == 0 ? 0 : source->bytes / before * source->pending();
  impl.acks_dirty = true;
  std::vector<uint64_t> dead;
  impl.DropAcknowledged(*source, &dead);
  impl.ForgetIfIdle(source);
  // With the last record of a source its position would be gone, too: it is written down first.
  if (!dead.empty()) impl.acks_written.wait(lock, [&] { return !impl.acks_writing; });
  impl.PersistAcks(lock, !dead.empty());
  if (dead.empty()) return;
  lock.unlock();
  impl.DeleteSegments(dead);
  lock.lock();
  impl.changed.notify_all();
}

void Spool::Impl::DropAcknowledged(Source& source, std::vector<uint64_t>* dead) {
  bool emptied = false;
  while (!source.ranges.empty() && source.ranges.begin()->second.last_seq <= source.acked_seq) {
    const auto segment = index.segments.find(source.ranges.begin()->first);
    if (segment != index.segments.end() && --segment->second.live == 0) emptied = true;
    source.ranges.erase(source.ranges.begin());
  }
  if (!emptied) return;
  // The active segment is the leader's; it may be closed here only when there is none at work.
  if (active != 0 && !committing) {
    Segment& segment = index.segments[active];
    if (segment.live == 0 && segment.bytes >= std::min(kIdleSegmentBytes, options.segment_bytes / 4)) {
      writer.reset();
      declared.clear();
      segment.sealed = true;
      active = 0;
    }
  }
  CollectDead(dead);
}

// Takes sealed segments without pending records out of the index.
void Spool::Impl::CollectDead(std::vector<uint64_t>* dead) {
  for (auto it = index.segments.begin(); it != index.segments.end();) {
    if (it->second.sealed && it->second.live == 0) {
      index.bytes -= it->second.bytes;
      dead->push_back(it->first);
      it = index.segments.erase(it);
    } else {
      ++it;
    }
  }
}

// A segment that cannot be deleted is found and deleted at the next start.
void Spool::Impl::DeleteSegments(const std::vector<uint64_t>& dead) {
  for (uint64_t number : dead) {
    fs.Remove(JoinPath(dir, SegmentIndexName(number)))
        .IgnoreError();  // first: it must not outlive its segment
    fs.Remove(SegmentPath(number)).IgnoreError();
  }
}

// No Append is under way for an idle source: it would be attached.
void Spool::Impl::ForgetIfIdle(const std::shared_ptr<Source>& source) {
  if (!source->idle()) return;
  RememberPosition(source->key, source->durable_seq);
  index.sources.erase(source->key);
  readable.notify_all();
}

void Spool::Impl::RememberPosition(const SourceKey& key, uint64_t seq) {
  if (seq == 0) return;
  if (positions.insert_or_assign(key, seq).second) position_order.push_back(key);
  while (position_order.size() > kMaxPositions) {
    positions.erase(position_order.front());
    position_order.pop_front();
  }
}

// Failing here costs repetitions, never records.
void Spool::Impl::PersistAcks(std::unique_lock<std::mutex>& lock, bool force) {
  const int64_t now_ns = options.clock->MonotonicNanos();
  const bool due = now_ns - acks_written_ns >= options.ack_persist_interval_ms * 1'000'000;
  if (!acks_dirty || acks_writing || (!due && !force)) return;
  AckedSeqs acked = positions;
  for (const auto& [key, source] : index.sources) {
    if (source->acked_seq > 0) acked[key] = source->acked_seq;
  }
  acks_dirty = false;
  acks_writing = true;
  acks_written_ns = now_ns;
  lock.unlock();
  const Status status = WriteAckFile(fs, dir, acked);
  lock.lock();
  acks_writing = false;
  if (!status.ok()) acks_dirty = true;
  acks_written.notify_all();
}

std::vector<SourceInfo> Spool::Sources() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<SourceInfo> infos;
  for (const auto& [key, source] : impl_->index.sources) infos.push_back(InfoOf(*source));
  return infos;
}

std::optional<SourceInfo> Spool::Find(const SourceKey& key) const {
  std::lock_guard lock(impl_->mutex);
  const auto source = impl_->index.FindSource(key);
  if (source == nullptr) return std::nullopt;
  return InfoOf(*source);
}

uint64_t Spool::WaitForSources(uint64_t seen, std::chrono::nanoseconds timeout) const {
  std::unique_lock lock(impl_->mutex);
  const uint64_t wakes = impl_->wakes;
  impl_->changed.wait_for(lock, timeout, [&] { return impl_->generation != seen || impl_->wakes != wakes; });
  return impl_->generation;
}

void Spool::WaitForSpace(std::chrono::nanoseconds timeout) const {
  std::unique_lock lock(impl_->mutex);
  const uint64_t wakes = impl_->wakes;
  const uint64_t bytes = impl_->index.bytes;
  impl_->changed.wait_for(lock, timeout, [&] { return impl_->wakes != wakes || impl_->index.bytes < bytes; });
}

void Spool::Wake() {
  std::lock_guard lock(impl_->mutex);
  ++impl_->wakes;
  impl_->changed.notify_all();
  impl_->readable.notify_all();
}

SpoolStats Spool::Stats() const {
  std::lock_guard lock(impl_->mutex);
  SpoolStats stats = impl_->counters;
  stats.bytes = impl_->index.bytes;
  stats.limit_bytes = impl_->options.limit_bytes;
  stats.segments = impl_->index.segments.size();
  stats.sources = impl_->index.sources.size();
  for (const auto& [key, source] : impl_->index.sources)
    stats.pending += source->durable_seq - source->acked_seq;
  for (const auto& [number, segment] : impl_->index.segments) {
    if (segment.live == 0) continue;
    stats.oldest_unix_ns = segment.created_unix_ns;
    break;
  }
  return stats;
}

}  // namespace foreshock::agent
