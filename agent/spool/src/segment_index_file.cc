#include "segment_index_file.h"

#include "spool_format.h"

namespace foreshock::agent {

std::string SegmentIndexName(uint64_t number) { return SegmentName(number) + ".index"; }

SegmentIndex IndexOfSegment(const Index& index, uint64_t number) {
  SegmentIndex result;
  const auto segment = index.segments.find(number);
  if (segment == index.segments.end()) return result;
  result.created_unix_ns = segment->second.created_unix_ns;
  result.segment_bytes = segment->second.bytes;
  for (const auto& [key, source] : index.sources) {
    const auto range = source->ranges.find(number);
    if (range != source->ranges.end()) result.entries.push_back({key, source->hello, range->second});
  }
  return result;
}

Status WriteSegmentIndex(FileSystem& fs, const std::string& dir, uint64_t number, const SegmentIndex& index) {
  const std::string path = JoinPath(dir, SegmentIndexName(number));
  const Status removed = fs.Remove(path);
  if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  LogRecovery recovery;
  FS_ASSIGN_OR_RETURN(auto writer, AppendLogWriter::Open(fs, path, kIndexKind, nullptr, &recovery));
  FS_RETURN_IF_ERROR(
      writer->Append(kIndexHeadType, EncodeIndexHead(index.created_unix_ns, index.segment_bytes)));
  for (const SegmentIndex::Entry& entry : index.entries) {
    FS_RETURN_IF_ERROR(writer->Append(kIndexRangeType, EncodeRange(entry.range, entry.key, entry.hello)));
  }
  FS_RETURN_IF_ERROR(writer->Append(kIndexEndType, {}));
  return writer->Flush();
}

Result<SegmentIndex> ReadSegmentIndex(FileSystem& fs, const std::string& dir, uint64_t number) {
  const std::string path = JoinPath(dir, SegmentIndexName(number));
  FS_ASSIGN_OR_RETURN(auto reader, AppendLogReader::Open(fs, path, kIndexKind));
  FS_ASSIGN_OR_RETURN(const uint64_t segment_bytes, fs.Size(JoinPath(dir, SegmentName(number))));
  const Status damaged(Code::kDataLoss, path + ": damaged, or of another segment");
  SegmentIndex index;
  bool ended = false;
  LogRecord record;
  for (;;) {
    const auto outcome = reader->Next(&record);
    if (outcome == AppendLogReader::Outcome::kEnd) break;
    if (outcome != AppendLogReader::Outcome::kRecord) return damaged;
    if (record.type == kIndexHeadType) {
      if (!DecodeIndexHead(record.payload, &index.created_unix_ns, &index.segment_bytes)) return damaged;
    } else if (record.type == kIndexRangeType) {
      SegmentIndex::Entry entry;
      if (!DecodeRange(record.payload, &entry.range, &entry.key, &entry.hello)) return damaged;
      index.entries.push_back(std::move(entry));
    } else if (record.type == kIndexEndType) {
      ended = true;
    }
  }
  if (!ended || index.segment_bytes != segment_bytes) return damaged;
  return index;
}

}  // namespace foreshock::agent
