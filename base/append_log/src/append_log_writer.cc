#include <random>

#include "foreshock/base/append_log_format.h"
#include "foreshock/base/append_log.h"

namespace foreshock {
namespace {

// Reads the log that is there. *end is where the next record may begin, 0 when not even the header is whole.
Status Replay(FileSystem& fs, const std::string& path, uint32_t kind,
              const std::function<void(const LogRecord&)>& visit, LogRecovery* recovery, uint64_t* end,
              std::optional<uint32_t>* tag) {
  *end = 0;
  auto opened = AppendLogReader::Open(fs, path, kind);
  if (!opened.ok()) return opened.status().code() == Code::kNotFound ? OkStatus() : opened.status();
  AppendLogReader& reader = **opened;
  LogRecord record;
  for (;;) {
    switch (reader.Next(&record)) {
      case AppendLogReader::Outcome::kRecord:
        ++recovery->records;
        if (visit) visit(record);
        break;
      case AppendLogReader::Outcome::kCorrupt:
        recovery->detail = reader.status().message();
        break;
      case AppendLogReader::Outcome::kIoError:
        return reader.status();
      case AppendLogReader::Outcome::kTornTail:
        recovery->detail = reader.status().message();
        [[fallthrough]];
      case AppendLogReader::Outcome::kEnd:
        *end = reader.valid_bytes();
        *tag = reader.tag();
        recovery->torn_bytes = reader.file_bytes() - *end;
        recovery->corrupt_regions = reader.corrupt_regions();
        recovery->corrupt_bytes = reader.corrupt_bytes();
        return OkStatus();
    }
  }
}

}  // namespace

AppendLogWriter::AppendLogWriter(FileSystem& fs, std::string path, uint32_t kind, uint32_t tag,
                                 std::unique_ptr<AppendFile> file, uint64_t size)
    : fs_(fs), path_(std::move(path)), kind_(kind), tag_(tag), file_(std::move(file)), size_(size) {}

Result<std::unique_ptr<AppendLogWriter>> AppendLogWriter::Open(
    FileSystem& fs, const std::string& path, uint32_t kind,
    const std::function<void(const LogRecord&)>& visit, LogRecovery* recovery,
    std::optional<uint32_t> new_tag) {
  *recovery = LogRecovery{};
  uint64_t end = 0;
  std::optional<uint32_t> tag;
  FS_RETURN_IF_ERROR(Replay(fs, path, kind, visit, recovery, &end, &tag));
  if (!tag || end == 0) tag = new_tag ? *new_tag : std::random_device{}();
  FS_ASSIGN_OR_RETURN(auto file, fs.OpenAppend(path));
  if (recovery->torn_bytes > 0) {
    FS_RETURN_IF_ERROR(fs.Truncate(path, end));
    // Before anything is appended: a cut that comes back would bury new records behind the old tail.
    FS_RETURN_IF_ERROR(file->Sync());
  }
  return std::unique_ptr<AppendLogWriter>(new AppendLogWriter(fs, path, kind, *tag, std::move(file), end));
}

uint64_t AppendLogWriter::next_offset() const {
  const uint64_t header = size_ == 0 && collected_.empty() ? kLogHeaderBytes : 0;
  return size_ + collected_.size() + header;
}

Status AppendLogWriter::Append(uint8_t type, std::string_view payload) {
  if (!broken_.ok()) return broken_;
  if (payload.size() > kMaxLogPayloadBytes) {
    return Status(Code::kInvalidArgument, "record: " + std::to_string(payload.size()) + " bytes, at most " +
                                              std::to_string(kMaxLogPayloadBytes));
  }
  if (size_ == 0 && collected_.empty()) append_log::AppendFileHeader(kind_, tag_, &collected_);
  append_log::AppendRecord(type, payload, tag_, size_ + collected_.size(), &collected_);
  return OkStatus();
}

Status AppendLogWriter::Flush() {
  if (!broken_.ok()) return broken_;
  if (collected_.empty()) return OkStatus();
  const Status written = file_->Append(collected_);
  if (written.ok()) size_ += collected_.size();
  collected_.clear();
  if (!written.ok()) {
    const Status cut = fs_.Truncate(path_, size_);
    if (!cut.ok()) broken_ = written.Annotate("log broken, its end could not be cut back");
  }
  return written;
}

Status AppendLogWriter::Sync() {
  FS_RETURN_IF_ERROR(Flush());
  Status synced = file_->Sync();
  if (synced.ok() && !entry_durable_) synced = fs_.SyncDir(ParentPath(path_));
  if (!synced.ok()) {
    broken_ = synced.Annotate("log broken by a failed sync");
    return synced;
  }
  entry_durable_ = true;
  return OkStatus();
}

}  // namespace foreshock
