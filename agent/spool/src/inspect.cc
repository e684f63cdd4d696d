#include "ack_file.h"
#include "index.h"

namespace foreshock::agent {

Result<SpoolSummary> InspectSpool(FileSystem& fs, const std::string& dir) {
  SpoolSummary summary;
  std::string warning;
  const AckedSeqs acked = ReadAckFile(fs, dir, &warning);
  if (!warning.empty()) summary.recovery.warnings.push_back(warning);
  SegmentsFound found;
  FS_RETURN_IF_ERROR(FindSegments(fs, dir, acked, &found, &summary.recovery));
  for (const auto& [number, segment] : found.index.segments) {
    summary.segments.push_back({number, segment.bytes, found.records[number], segment.created_unix_ns});
  }
  for (const auto& [key, source] : found.index.sources) {
    summary.sources.push_back({key, source->hello, source->durable_seq, source->acked_seq, false});
  }
  return summary;
}

}  // namespace foreshock::agent
