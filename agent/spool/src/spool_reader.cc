#include "spool_format.h"
#include "spool_impl.h"

namespace foreshock::agent {

struct SpoolReader::Impl {
  Impl(Spool::Impl& owner, SourceKey source_key, uint64_t after)
      : spool(owner), key(std::move(source_key)), last(after) {}

  // Where the next record lies, copied from the index.
  struct Target {
    uint64_t segment = 0;
    uint64_t bytes = 0;  // durable ones of the segment
    Range range;
  };

  // Waits until there is a record after `last`. False: timeout or Wake.
  Result<bool> WaitForTarget(std::chrono::nanoseconds timeout, Target* target);
  Status OpenSegment(const Target& target);
  // Reads on in the open segment. False: the range ended without a record (corruption).
  Result<bool> ReadFrom(const Target& target, SpoolRecord* record);
  void CountLost(uint64_t lost);

  Spool::Impl& spool;
  const SourceKey key;
  uint64_t last;         // seq of the last record returned or given up
  uint64_t lost = 0;     // seqs given up since the last record returned
  bool damaged = false;  // corruption met since then
  uint64_t segment = 0;  // the open one
  std::unique_ptr<AppendLogReader> log;
};

SpoolReader::SpoolReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SpoolReader::~SpoolReader() = default;

std::unique_ptr<SpoolReader> Spool::Read(const SourceKey& key, uint64_t after) {
  return std::unique_ptr<SpoolReader>(
      new SpoolReader(std::make_unique<SpoolReader::Impl>(*impl_, key, after)));
}

Result<bool> SpoolReader::Next(SpoolRecord* record, std::chrono::nanoseconds timeout) {
  for (;;) {
    Impl::Target target;
    FS_ASSIGN_OR_RETURN(const bool ready, impl_->WaitForTarget(timeout, &target));
    if (!ready) return false;
    if (impl_->log == nullptr || impl_->segment != target.segment)
      FS_RETURN_IF_ERROR(impl_->OpenSegment(target));
    FS_ASSIGN_OR_RETURN(const bool found, impl_->ReadFrom(target, record));
    if (found) return true;
    // Everything of this source up to the range's end is lost here; the next segment may have more.
    impl_->lost += target.range.last_seq - impl_->last;
    impl_->last = target.range.last_seq;
  }
}

Result<bool> SpoolReader::Impl::WaitForTarget(std::chrono::nanoseconds timeout, Target* target) {
  std::unique_lock lock(spool.mutex);
  const uint64_t wakes = spool.wakes;
  std::shared_ptr<Source> source;
  const auto ready = [&] {
    source = spool.index.FindSource(key);
    return source == nullptr || source->durable_seq > last || spool.wakes != wakes;
  };
  spool.readable.wait_for(lock, timeout, ready);
  if (source == nullptr) return Status(Code::kNotFound, "source: " + key.ToString() + " is gone");
  for (const auto& [number, range] : source->ranges) {
    if (range.last_seq <= last) continue;
    *target = {number, spool.index.segments[number].bytes, range};
    return true;
  }
  // Acknowledged meanwhile by someone else.
  last = std::max(last, source->acked_seq);
  return false;
}

Status SpoolReader::Impl::OpenSegment(const Target& target) {
  log.reset();
  FS_ASSIGN_OR_RETURN(log, AppendLogReader::Open(spool.fs, spool.SegmentPath(target.segment), kSegmentKind));
  log->Seek(target.range.offset);
  segment = target.segment;
  return OkStatus();
}

Result<bool> SpoolReader::Impl::ReadFrom(const Target& target, SpoolRecord* record) {
  log->SetLimit(target.bytes);
  LogRecord raw;
  for (;;) {
    switch (log->Next(&raw)) {
      case AppendLogReader::Outcome::kRecord:
        break;
      case AppendLogReader::Outcome::kCorrupt:
        damaged = true;
        continue;
      case AppendLogReader::Outcome::kIoError: {
        const Status status = log->status();
        log.reset();  // the next call opens the segment anew and finds its place by seq
        return status;
      }
      case AppendLogReader::Outcome::kTornTail:
      case AppendLogReader::Outcome::kEnd:
        damaged = true;
        log.reset();
        return false;
    }
    if (raw.type >= kFirstReservedType) continue;
    const auto data = DecodeData(raw.payload);
    if (!data.has_value() || data->id != target.range.id || data->seq <= last) continue;
    if (damaged) lost += data->seq - last - 1;
    record->seq = data->seq;
    record->type = raw.type;
    record->payload.assign(data->payload);
    record->lost_before = lost;
    if (lost > 0) CountLost(lost);
    lost = 0;
    damaged = false;
    last = data->seq;
    return true;
  }
}

void SpoolReader::Impl::CountLost(uint64_t count) {
  std::lock_guard lock(spool.mutex);
  spool.counters.lost += count;
}

}  // namespace foreshock::agent
