#include <algorithm>

#include "index.h"
#include "segment_index_file.h"
#include "spool_format.h"

namespace foreshock::agent {
namespace {

std::shared_ptr<Source> KnownSource(const std::map<SourceKey, uint64_t>& acked, const SourceKey& key,
                                    Index* index) {
  std::shared_ptr<Source>& source = index->sources[key];
  if (source == nullptr) {
    source = std::make_shared<Source>();
    source->key = key;
    const auto position = acked.find(key);
    if (position != acked.end()) source->acked_seq = source->durable_seq = position->second;
  }
  return source;
}

// Takes a segment's index file instead of the segment.
void TakeIndex(const SegmentIndex& file, uint64_t number, const std::map<SourceKey, uint64_t>& acked,
               SegmentsFound* found, SpoolRecovery* recovery) {
  Segment& segment = found->index.segments[number];
  segment = {number, file.segment_bytes, file.created_unix_ns, true, 0};
  found->index.bytes += file.segment_bytes;
  ++recovery->segments;
  for (const SegmentIndex::Entry& entry : file.entries) {
    const std::shared_ptr<Source> source = KnownSource(acked, entry.key, &found->index);
    const Range& range = entry.range;
    source->hello = entry.hello;
    found->records[number] += range.records;
    const uint64_t known = std::max(source->durable_seq, range.first_seq - 1);
    source->durable_seq = std::max(source->durable_seq, range.last_seq);
    if (range.last_seq <= source->acked_seq) continue;
    source->ranges[number] = range;
    ++segment.live;
    recovery->records += std::min(range.records, range.last_seq - std::min(known, range.last_seq));
  }
}

// Reads one segment into the index.
class SegmentScan {
 public:
  SegmentScan(const std::map<SourceKey, uint64_t>& acked, Index* index, SpoolRecovery* recovery)
      : acked_(acked), index_(index), recovery_(recovery) {}

  Status Run(FileSystem& fs, const std::string& path, uint64_t number) {
    FS_ASSIGN_OR_RETURN(auto reader, AppendLogReader::Open(fs, path, kSegmentKind));
    Segment& segment = index_->segments[number];
    segment.number = number;
    segment.sealed = true;
    LogRecord record;
    for (;;) {
      switch (reader->Next(&record)) {
        case AppendLogReader::Outcome::kRecord:
          Take(record, segment);
          break;
        case AppendLogReader::Outcome::kCorrupt:
          recovery_->warnings.push_back(reader->status().message());
          break;
        case AppendLogReader::Outcome::kIoError:
          return reader->status();
        case AppendLogReader::Outcome::kTornTail:
          recovery_->warnings.push_back(reader->status().message());
          [[fallthrough]];
        case AppendLogReader::Outcome::kEnd:
          Finish(*reader, segment);
          return OkStatus();
      }
    }
  }

  uint64_t records() const { return records_; }

 private:
  void Take(const LogRecord& record, Segment& segment) {
    if (record.type == kSegmentType) {
      DecodeSegment(record.payload, &segment.created_unix_ns);
    } else if (record.type == kSourceType) {
      Declare(record.payload);
    } else if (record.type < kFirstReservedType) {
      TakeData(record, segment);
    }
    // Other reserved types come from later versions and are skipped.
  }

  void Declare(std::string_view bytes) {
    uint32_t id = 0;
    SourceKey key;
    std::string hello;
    if (!DecodeSource(bytes, &id, &key, &hello)) return;
    const std::shared_ptr<Source> source = KnownSource(acked_, key, index_);
    source->hello = std::move(hello);
    by_id_[id] = source;
  }

  void TakeData(const LogRecord& record, Segment& segment) {
    const auto data = DecodeData(record.payload);
    if (!data.has_value()) return;
    const auto source = by_id_.find(data->id);
    if (source == by_id_.end()) {
      ++orphans_;
      return;
    }
    ++records_;
    // A repetition: written again after a sync had failed, or acknowledged before.
    if (data->seq <= source->second->durable_seq) return;
    AddRecord(*source->second, segment, data->id, data->seq, record.offset);
    ++recovery_->records;
  }

  void Finish(const AppendLogReader& reader, Segment& segment) {
    segment.bytes = reader.file_bytes();
    index_->bytes += segment.bytes;
    ++recovery_->segments;
    recovery_->torn_bytes += reader.file_bytes() - reader.valid_bytes();
    recovery_->corrupt_regions += reader.corrupt_regions();
    recovery_->corrupt_bytes += reader.corrupt_bytes();
    if (orphans_ > 0) {
      recovery_->warnings.push_back(SegmentName(segment.number) + ": " + std::to_string(orphans_) +
                                    " records of a source whose declaration is damaged");
    }
  }

  const std::map<SourceKey, uint64_t>& acked_;
  Index* const index_;
  SpoolRecovery* const recovery_;
  std::map<uint32_t, std::shared_ptr<Source>> by_id_;
  uint64_t records_ = 0;
  uint64_t orphans_ = 0;
};

}  // namespace

Status FindSegments(FileSystem& fs, const std::string& dir, const std::map<SourceKey, uint64_t>& acked,
                    SegmentsFound* found, SpoolRecovery* recovery) {
  FS_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(dir));
  std::map<uint64_t, std::string> numbers;  // in order
  for (const std::string& name : names) {
    if (const auto number = ParseSegmentName(name)) numbers[*number] = JoinPath(dir, name);
  }
  for (const auto& [number, path] : numbers) {
    const auto file = ReadSegmentIndex(fs, dir, number);
    if (file.ok()) {
      TakeIndex(*file, number, acked, found, recovery);
      continue;
    }
    SegmentScan scan(acked, &found->index, recovery);
    const Status scanned = scan.Run(fs, path, number);
    if (scanned.code() == Code::kNotFound) continue;  // deleted since, by an agent at work
    FS_RETURN_IF_ERROR(scanned);
    found->records[number] = scan.records();
    found->scanned.push_back(number);
  }
  return OkStatus();
}

}  // namespace foreshock::agent
