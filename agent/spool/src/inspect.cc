#include "ack_file.h"
#include "index.h"

namespace foreshock::agent {

Result<SpoolSummary> InspectSpool(FileSystem& fs, const std::string& dir) {
  SpoolSummary summary;
  std::string warning;
  const AckedSeqs acked = ReadAckFile(fs, dir, &warning);
  if (!warning.empty()) summary.recovery.warnings.push_back(warning);
  Index index;
  std::map<uint64_t, uint64_t> records;
  FS_RETURN_IF_ERROR(ScanSegments(fs, dir, acked, &index, &summary.recovery, &records));
  for (const auto& [number, segment] : index.segments) {
    summary.segments.push_back({number, segment.bytes, records[number], segment.created_unix_ns});
  }
  for (const auto& [key, source] : index.sources) {
    summary.sources.push_back({key, source->hello, source->durable_seq, source->acked_seq, false});
  }
  return summary;
}

}  // namespace foreshock::agent
