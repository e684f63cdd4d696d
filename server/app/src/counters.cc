#include "counters.h"

namespace foreshock::app {

std::map<std::string, uint64_t> CountersOf(const ingest::Ingest& ingest, const merge::Merger& merger) {
  const ingest::Ingest::Stats in = ingest.stats();
  const merge::Merger::Stats merged = merger.stats();
  return {
      {"ingest_streams", in.streams},
      {"ingest_records", in.records},
      {"ingest_bytes", in.bytes},
      {"ingest_values", in.values},
      {"ingest_duplicates", in.duplicates},
      {"ingest_quarantined", in.quarantined},
      {"ingest_unreadable", in.unreadable},
      {"ingest_refused_hellos", in.refused_hellos},
      {"ingest_commits", in.commits},
      {"ingest_failed_commits", in.failed_commits},
      {"ingest_overloads", in.overloads},
      {"ingest_queued_bytes", in.queued_bytes},
      {"merge_steps", merged.merged},
      {"merge_amended", merged.amended},
      {"merge_incomplete", merged.incomplete},
      {"merge_pending", merged.pending},
  };
}

}  // namespace foreshock::app
