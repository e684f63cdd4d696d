#include "ack_file.h"

#include "spool_format.h"

namespace foreshock::agent {
namespace {

constexpr std::string_view kName = "acks";
constexpr std::string_view kTemporaryName = "acks.tmp";

}  // namespace

AckedSeqs ReadAckFile(FileSystem& fs, const std::string& dir, std::string* warning) {
  AckedSeqs acked;
  const std::string path = JoinPath(dir, kName);
  auto reader = AppendLogReader::Open(fs, path, kAckKind);
  if (!reader.ok()) {
    if (reader.status().code() != Code::kNotFound) *warning = reader.status().message();
    return acked;
  }
  LogRecord record;
  for (;;) {
    const auto outcome = (*reader)->Next(&record);
    if (outcome == AppendLogReader::Outcome::kEnd) return acked;
    if (outcome == AppendLogReader::Outcome::kRecord) {
      SourceKey key;
      uint64_t seq = 0;
      if (record.type == kAckType && DecodeAck(record.payload, &key, &seq)) acked[key] = seq;
      continue;
    }
    *warning = (*reader)->status().message();
    if (outcome != AppendLogReader::Outcome::kCorrupt) return acked;
  }
}

Status WriteAckFile(FileSystem& fs, const std::string& dir, const AckedSeqs& acked) {
  const std::string temporary = JoinPath(dir, kTemporaryName);
  const Status removed = fs.Remove(temporary);  // left by a crash
  if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  LogRecovery recovery;
  FS_ASSIGN_OR_RETURN(auto writer, AppendLogWriter::Open(fs, temporary, kAckKind, nullptr, &recovery));
  for (const auto& [key, seq] : acked) FS_RETURN_IF_ERROR(writer->Append(kAckType, EncodeAck(key, seq)));
  FS_RETURN_IF_ERROR(writer->Sync());
  FS_RETURN_IF_ERROR(fs.Rename(temporary, JoinPath(dir, kName)));
  return fs.SyncDir(dir);
}

}  // namespace foreshock::agent
