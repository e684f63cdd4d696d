#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace foreshock::agent {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAuditFile[] = "discarded.jsonl";

struct Discarded {
  std::vector<SourceInfo> sources;
  uint64_t records = 0;
};

Discarded OfRun(const Spool& spool, const std::string& run) {
  Discarded discarded;
  for (SourceInfo& source : spool.Sources()) {
    if (source.key.run != run) continue;
    discarded.records += source.durable_seq - source.acked_seq;
    discarded.sources.push_back(std::move(source));
  }
  return discarded;
}

std::string AuditLine(const CommandLine& line, const Discarded& discarded) {
  Json sources = Json::array();
  for (const SourceInfo& s : discarded.sources) {
    sources.push_back({{"attempt", s.key.attempt},
                       {"rank", s.key.rank},
                       {"incarnation", std::to_string(s.key.incarnation)},
                       {"from_seq", s.acked_seq + 1},
                       {"to_seq", s.durable_seq}});
  }
  const Json json = {{"time_unix_ns", SystemClock::Instance().WallNanos()},
                     {"uid", ::getuid()},
                     {"run", line.discard_run},
                     {"reason", line.reason},
                     {"records", discarded.records},
                     {"sources", sources}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Durable before anything goes.
Status WriteAudit(const std::string& dir, const std::string& text) {
  FileSystem& fs = PosixFileSystem();
  FS_ASSIGN_OR_RETURN(const auto file, fs.OpenAppend(JoinPath(dir, kAuditFile)));
  FS_RETURN_IF_ERROR(file->Append(text));
  FS_RETURN_IF_ERROR(file->Sync());
  return fs.SyncDir(dir);
}

Result<std::string> Discard(const CommandLine& line) {
  if (line.reason.empty())
    return Status(Code::kInvalidArgument, "reason: missing, it is kept for the record");
  const std::string& dir = line.agent.spool_dir;
  // A folder without a spool must not become one.
  FS_RETURN_IF_ERROR(InspectSpool(PosixFileSystem(), dir).status());
  SpoolRecovery recovery;
  FS_ASSIGN_OR_RETURN(const auto spool, Spool::Open(PosixFileSystem(), dir, line.agent.spool, &recovery));
  const Discarded discarded = OfRun(*spool, line.discard_run);
  if (discarded.sources.empty()) {
    return Status(Code::kNotFound, "run: '" + line.discard_run + "' has nothing in " + dir);
  }
  std::string audit = AuditLine(line, discarded);
  FS_RETURN_IF_ERROR(WriteAudit(dir, audit));
  for (const SourceInfo& source : discarded.sources) spool->Acknowledge(source.key, source.durable_seq);
  return audit;
}

}  // namespace

int DiscardRun(const CommandLine& line) {
  const auto audit = Discard(line);
  if (!audit.ok()) {
    std::fprintf(stderr, "foreshock-agent: %s\n", audit.status().ToString().c_str());
    if (audit.status().code() == Code::kFailedPrecondition) return kExitAlreadyRunning;
    return audit.status().code() == Code::kInvalidArgument ? kExitUsage : kExitFailure;
  }
  if (line.json) {
    std::fputs(audit->c_str(), stdout);
  } else {
    std::printf("discarded what waited of run %s; %s/%s keeps the record of it\n", line.discard_run.c_str(),
                line.agent.spool_dir.c_str(), kAuditFile);
  }
  return kExitOk;
}

}  // namespace foreshock::agent
