#include <algorithm>

#include "foreshock/base/append_log_format.h"
#include "foreshock/base/append_log.h"
#include "foreshock/base/crc32c.h"

namespace foreshock {
namespace {

constexpr uint64_t kWindowBytes = 256 << 10;

}  // namespace

AppendLogReader::AppendLogReader(std::unique_ptr<ReadFile> file, std::string path, uint64_t bytes,
                                 uint32_t kind)
    : file_(std::move(file)), path_(std::move(path)), file_bytes_(bytes), kind_(kind) {}

Result<std::unique_ptr<AppendLogReader>> AppendLogReader::Open(FileSystem& fs, const std::string& path,
                                                               uint32_t kind) {
  FS_ASSIGN_OR_RETURN(auto file, fs.OpenRead(path));
  FS_ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
  std::unique_ptr<AppendLogReader> reader(new AppendLogReader(std::move(file), path, bytes, kind));
  FS_RETURN_IF_ERROR(reader->CheckHeader());
  return reader;
}

// A damaged header is not an error here: position_ stays 0, where no record parses, and Next deals with it.
Status AppendLogReader::CheckHeader() {
  std::string_view header;
  uint32_t tag = 0;
  FS_RETURN_IF_ERROR(View(0, kLogHeaderBytes, &header));
  switch (append_log::CheckFileHeader(header, kind_, &tag)) {
    case append_log::HeaderState::kGood:
      position_ = valid_bytes_ = kLogHeaderBytes;
      tag_ = tag;
      break;
    case append_log::HeaderState::kDamaged:
      break;
    case append_log::HeaderState::kOtherKind:
      return Status(Code::kInvalidArgument, path_ + ": a log of another kind");
    case append_log::HeaderState::kLaterVersion:
      return Status(Code::kUnimplemented, path_ + ": written by another version of the format");
  }
  return OkStatus();
}

Status AppendLogReader::View(uint64_t offset, uint64_t bytes, std::string_view* view) {
  if (offset < window_offset_ || offset + bytes > window_offset_ + window_.size()) {
    const uint64_t wanted = std::max(bytes, kWindowBytes);
    const uint64_t there = offset < file_bytes_ ? file_bytes_ - offset : 0;
    FS_RETURN_IF_ERROR(file_->ReadAt(offset, std::min(wanted, there), &window_));
    window_offset_ = offset;
  }
  *view = std::string_view(window_).substr(offset - window_offset_, bytes);
  return OkStatus();
}

Status AppendLogReader::Parse(uint64_t offset, LogRecord* record, bool* whole, uint64_t* next) {
  *whole = false;
  *next = 0;
  std::string_view view;
  FS_RETURN_IF_ERROR(View(offset, kLogRecordOverhead, &view));
  append_log::RecordHeader header;
  if (view.size() < kLogRecordOverhead) return OkStatus();
  if (!append_log::ParseRecordHeader(view, offset, &header)) return OkStatus();
  if (tag_ && header.tag != *tag_) return OkStatus();  // a block of another file
  const uint64_t end = offset + kLogRecordOverhead + header.length;
  if (end > file_bytes_) return OkStatus();
  *next = end;
  FS_RETURN_IF_ERROR(View(offset, kLogRecordOverhead + header.length, &view));
  if (view.size() < kLogRecordOverhead + header.length) return OkStatus();  // cut off since
  view.remove_prefix(kLogRecordOverhead);
  if (Crc32cExtend(header.seed, view) != header.payload_crc) return OkStatus();
  tag_ = header.tag;  // where the file's header is damaged, its first whole record tells
  *record = LogRecord{offset, header.type, view};
  *whole = true;
  return OkStatus();
}

AppendLogReader::Outcome AppendLogReader::Next(LogRecord* record) {
  if (finished_) return final_outcome_;
  if (position_ >= file_bytes_) {
    finished_ = true;
    final_outcome_ = Outcome::kEnd;
    return final_outcome_;
  }
  bool whole = false;
  uint64_t next = 0;
  if (Status status = Parse(position_, record, &whole, &next); !status.ok()) return Fail(std::move(status));
  // Where the file's header is damaged a record at offset 0 would be an accident.
  if (!whole || position_ == 0) return Damaged(position_ == 0 ? 0 : next);
  position_ = valid_bytes_ = next;
  return Outcome::kRecord;
}

// Looks for the next whole record: first where the damaged one says it ends, then byte by byte.
AppendLogReader::Outcome AppendLogReader::Damaged(uint64_t trusted_next) {
  const uint64_t start = position_;
  LogRecord ignored;
  uint64_t next = 0;
  uint64_t found = 0;
  const auto try_at = [&](uint64_t offset) -> Status {
    bool whole = false;
    FS_RETURN_IF_ERROR(Parse(offset, &ignored, &whole, &next));
    if (whole) found = offset;
    return OkStatus();
  };
  if (trusted_next != 0) {
    if (Status status = try_at(trusted_next); !status.ok()) return Fail(std::move(status));
  }
  for (uint64_t at = start + 1; found == 0 && at + kLogRecordOverhead <= file_bytes_; ++at) {
    if (Status status = try_at(at); !status.ok()) return Fail(std::move(status));
  }
  const std::string where = path_ + ": " + (start == 0 ? "file header" : "record") + " damaged at offset " +
                            std::to_string(start) + ", ";
  if (found == 0) {
    finished_ = true;
    final_outcome_ = Outcome::kTornTail;
    status_ = Status(Code::kDataLoss, where + "nothing whole in the last " +
                                          std::to_string(file_bytes_ - start) + " bytes (torn tail)");
    return final_outcome_;
  }
  ++corrupt_regions_;
  corrupt_bytes_ += found - start;
  position_ = found;
  status_ = Status(Code::kDataLoss, where + std::to_string(found - start) + " bytes skipped (corrupt)");
  return Outcome::kCorrupt;
}

AppendLogReader::Outcome AppendLogReader::Fail(Status status) {
  finished_ = true;
  final_outcome_ = Outcome::kIoError;
  status_ = std::move(status);
  return final_outcome_;
}

void AppendLogReader::SetLimit(uint64_t bytes) {
  file_bytes_ = bytes;
  finished_ = false;
  // What was read beyond may have been cut back and written anew since.
  if (window_offset_ >= bytes) {
    window_.clear();
  } else if (window_offset_ + window_.size() > bytes) {
    window_.resize(bytes - window_offset_);
  }
}

void AppendLogReader::Seek(uint64_t offset) {
  position_ = offset;
  finished_ = false;
}

Status AppendLogReader::ReadRecordAt(uint64_t offset, LogRecord* record) {
  bool whole = false;
  uint64_t next = 0;
  FS_RETURN_IF_ERROR(Parse(offset, record, &whole, &next));
  if (whole) return OkStatus();
  return Status(Code::kDataLoss, path_ + ": no whole record at offset " + std::to_string(offset));
}

}  // namespace foreshock
