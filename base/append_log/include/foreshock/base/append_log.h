// A checksummed append log: a file of records, written in groups, read back up to where power or process
// ended.
//
// Bytes, all integers little-endian (docs/formats/append_log.md has the recovery contract):
//
//   file    magic "FSKLOG" 6, version u16 = 1, kind u32, tag u32, crc32c u32 of those 16 bytes  (20 bytes)
//   record  length u32, type u8, check u24, tag u32, crc u32, payload[length]     (16 bytes + payload)
//
// `kind` says whose log it is (four characters), `type` is the owner's, `tag` is the file's own random
// number. h = crc32c(length, type, tag, offset of the record); check is the low 24 bits of h, so that a
// damaged payload does not cost the length; crc = crc32c of the payload continued from h. Tag and offset keep
// a block of another log, or of another place of this one, from passing for a record.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "foreshock/base/file.h"
#include "foreshock/base/result.h"

namespace foreshock {

inline constexpr uint32_t kMaxLogPayloadBytes = 64u << 20;
inline constexpr uint64_t kLogHeaderBytes = 20;
inline constexpr uint64_t kLogRecordOverhead = 16;

// The kind of a log from its four characters, e.g. LogKind("SPOL").
constexpr uint32_t LogKind(const char (&text)[5]) {
  return static_cast<uint32_t>(static_cast<unsigned char>(text[0])) |
         static_cast<uint32_t>(static_cast<unsigned char>(text[1])) << 8 |
         static_cast<uint32_t>(static_cast<unsigned char>(text[2])) << 16 |
         static_cast<uint32_t>(static_cast<unsigned char>(text[3])) << 24;
}

struct LogRecord {
  uint64_t offset = 0;  // of the record in the file
  uint8_t type = 0;
  std::string_view payload;  // valid until the reader's next call
};

// Reads a log from front to back, or single records by offset. One thread at a time. Sees the file as long as
// it was when opened, so that it may be opened while a writer appends.
class AppendLogReader {
 public:
  enum class Outcome {
    kRecord,    // *record is the next one
    kEnd,       // the file ends after a whole record
    kTornTail,  // from status()'s offset on nothing is whole: the usual end after a crash. Final.
    kCorrupt,   // damage with whole records after it; status() has offset and length; the next call goes on
                // behind it
    kIoError,   // status() has the system's words. Final.
  };

  // kNotFound and other file errors; kInvalidArgument when it is a log of another kind; kUnimplemented when
  // it is of a later version.
  static Result<std::unique_ptr<AppendLogReader>> Open(FileSystem& fs, const std::string& path,
                                                       uint32_t kind);

  Outcome Next(LogRecord* record);

  // Sees the file as if it were `bytes` long (not more than it is): for a reader behind a writer, who knows
  // how far the file is durable. Next goes on from where it was, also after kEnd and kTornTail.
  void SetLimit(uint64_t bytes);
  // Next goes on at `offset`, where a record begins.
  void Seek(uint64_t offset);

  // The record that begins at `offset`; kDataLoss when there is no whole one. Does not move Next.
  Status ReadRecordAt(uint64_t offset, LogRecord* record);

  const Status& status() const { return status_; }  // of the last kTornTail, kCorrupt, kIoError
  uint64_t valid_bytes() const {
    return valid_bytes_;
  }  // end of the last whole record returned, or of the header
  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t corrupt_regions() const { return corrupt_regions_; }
  uint64_t corrupt_bytes() const { return corrupt_bytes_; }
  // The file's; nothing before a whole header or record was seen.
  std::optional<uint32_t> tag() const { return tag_; }

 private:
  AppendLogReader(std::unique_ptr<ReadFile> file, std::string path, uint64_t bytes, uint32_t kind);

  Status CheckHeader();
  // `bytes` bytes at `offset`, fewer at the end of the file.
  Status View(uint64_t offset, uint64_t bytes, std::string_view* view);
  // Whether a whole record begins at `offset`; `*next` is where the one after it begins, as far as the length
  // can be trusted (0: it cannot).
  Status Parse(uint64_t offset, LogRecord* record, bool* whole, uint64_t* next);
  Outcome Damaged(uint64_t trusted_next);
  Outcome Fail(Status status);

  const std::unique_ptr<ReadFile> file_;
  const std::string path_;
  uint64_t file_bytes_;
  const uint32_t kind_;
  std::optional<uint32_t> tag_;
  std::string window_;
  uint64_t window_offset_ = 0;
  uint64_t position_ = 0;
  uint64_t valid_bytes_ = 0;
  uint64_t corrupt_regions_ = 0;
  uint64_t corrupt_bytes_ = 0;
  bool finished_ = false;
  Outcome final_outcome_ = Outcome::kEnd;
  Status status_;
};

// What opening a log for writing found and did.
struct LogRecovery {
  uint64_t records = 0;
  uint64_t torn_bytes = 0;  // cut off the end
  uint64_t corrupt_regions = 0;
  uint64_t corrupt_bytes = 0;
  std::string detail;  // of the last damage, empty when there was none
};

// Appends records. One thread at a time; one writer per file. Append collects, Flush writes, Sync makes
// durable: one Sync for many Appends is a group commit.
class AppendLogWriter {
 public:
  // Opens or creates a log. Calls visit (may be empty) for every whole record that is there, in order, then
  // cuts a torn tail off. Corrupt stretches in the middle are skipped, counted and left alone. `new_tag`: of
  // a log that is begun; nothing: drawn by chance (tests pin it).
  static Result<std::unique_ptr<AppendLogWriter>> Open(FileSystem& fs, const std::string& path, uint32_t kind,
                                                       const std::function<void(const LogRecord&)>& visit,
                                                       LogRecovery* recovery,
                                                       std::optional<uint32_t> new_tag = std::nullopt);

  // Collects one record in memory. kInvalidArgument when the payload is longer than kMaxLogPayloadBytes; the
  // status that broke the log when it is broken.
  Status Append(uint8_t type, std::string_view payload);

  // Writes what was collected. On failure (a full disk, say) the file is cut back to what it was, the
  // collected records are forgotten and the log stays usable; when it cannot be cut back the log is broken.
  Status Flush();

  // Flush, then makes every record so far and the file's directory entry durable. When Flush succeeded and
  // syncing failed nobody knows what the disk holds: the log is broken for good, and what was not synced
  // before is in doubt.
  Status Sync();

  bool broken() const { return !broken_.ok(); }
  uint64_t size() const { return size_; }  // bytes in the file, without what is collected
  uint64_t collected_bytes() const { return collected_.size(); }
  // Where the next record will begin, if what is collected gets written.
  uint64_t next_offset() const;

 private:
  AppendLogWriter(FileSystem& fs, std::string path, uint32_t kind, uint32_t tag,
                  std::unique_ptr<AppendFile> file, uint64_t size);

  FileSystem& fs_;
  const std::string path_;
  const uint32_t kind_;
  const uint32_t tag_;
  const std::unique_ptr<AppendFile> file_;
  std::string collected_;
  uint64_t size_;
  bool entry_durable_ = false;
  Status broken_;
};

}  // namespace foreshock
