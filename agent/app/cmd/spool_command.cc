#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace foreshock::agent {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const SpoolSummary& summary) {
  Json segments = Json::array();
  for (const SegmentSummary& s : summary.segments) {
    segments.push_back({{"number", s.number},
                        {"bytes", s.bytes},
                        {"records", s.records},
                        {"created_unix_ns", s.created_unix_ns}});
  }
  Json sources = Json::array();
  for (const SourceInfo& s : summary.sources) {
    sources.push_back({{"run", s.key.run},
                       {"attempt", s.key.attempt},
                       {"rank", s.key.rank},
                       {"incarnation", s.key.incarnation},
                       {"durable_seq", s.durable_seq},
                       {"acknowledged_seq", s.acked_seq}});
  }
  return {{"segments", segments},
          {"sources", sources},
          {"pending", summary.recovery.records},
          {"torn_bytes", summary.recovery.torn_bytes},
          {"corrupt_regions", summary.recovery.corrupt_regions},
          {"corrupt_bytes", summary.recovery.corrupt_bytes},
          {"warnings", summary.recovery.warnings}};
}

void Print(const SpoolSummary& summary, const std::string& dir) {
  uint64_t bytes = 0;
  for (const SegmentSummary& s : summary.segments) bytes += s.bytes;
  std::printf("%s: %zu segments, %" PRIu64 " bytes, %" PRIu64 " records wait for the server\n", dir.c_str(),
              summary.segments.size(), bytes, summary.recovery.records);
  for (const SourceInfo& s : summary.sources) {
    std::printf("  %s: seq %" PRIu64 ", acknowledged %" PRIu64 "\n", s.key.ToString().c_str(), s.durable_seq,
                s.acked_seq);
  }
  for (const std::string& warning : summary.recovery.warnings)
    std::printf("  warning: %s\n", warning.c_str());
}

}  // namespace

int ShowSpool(const CommandLine& line) {
  const auto summary = InspectSpool(PosixFileSystem(), line.agent.spool_dir);
  if (!summary.ok()) {
    std::fprintf(stderr, "foreshock-agent: %s\n", summary.status().ToString().c_str());
    return kExitFailure;
  }
  if (line.json) {
    std::printf("%s\n", ToJson(*summary).dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    Print(*summary, line.agent.spool_dir);
  }
  return kExitOk;
}

}  // namespace foreshock::agent
