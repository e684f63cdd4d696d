// The framing of records on the unix link and in framed recordings (docs/formats/link.md).
//
//   offset  bytes  what
//   0       4      'F' 'S' 'K' '1'
//   4       1      version: 1
//   5       1      type (RecordType)
//   6       2      0
//   8       4      length of the payload, little endian
//   12      n      payload: an encoded message
//   12 + n  4      CRC-32C of bytes 4 .. 12 + n, little endian
//
// The magic in every record lets a reader find the next one after damage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "foreshock/base/result.h"
#include "foreshock/wire/codec.h"

namespace foreshock::wire {

// Types up to kLastRecordType that have no name here come from a newer sender and are handed on like the
// others: their first four fields are those of a Frame (PeekHead), so they can be kept, relayed and
// acknowledged without being understood. Types above it belong to the link alone, carry no seq, and are
// skipped.
enum class RecordType : uint8_t { kHello = 1, kFrame = 2, kEvent = 3, kGoodbye = 4, kReply = 5 };
inline constexpr uint8_t kLastRecordType = 63;

struct Record {
  RecordType type = RecordType::kHello;
  std::string payload;
};

inline constexpr size_t kRecordOverhead = 16;

// Appends a framed record to `out`.
void AppendRecord(RecordType type, std::string_view payload, std::string* out);

// IngestRequest bytes (gRPC) of a record, and back: the message is the record's type as the field number.
std::string ToIngestRequest(RecordType type, std::string_view payload);
Result<Record> FromIngestRequest(std::string_view bytes);
// The same; the message's memory becomes the payload's.
Result<Record> FromIngestRequest(std::string&& bytes);

// Cuts a byte stream into records. Feed() what arrived, then Next() until it returns nullopt.
//
// Damage (bad magic, version, length or checksum) is reported once as kDataLoss with the stream offset; the
// parser then looks for the next magic, so a caller may go on with Next() (recordings) or hang up (links).
class RecordParser {
 public:
  explicit RecordParser(size_t max_payload_bytes = kMaxMessageBytes) : max_payload_(max_payload_bytes) {}

  void Feed(std::string_view bytes);
  // A record; nullopt when more bytes are needed; kDataLoss as above.
  Result<std::optional<Record>> Next();
  // Bytes fed and not yet returned as records: a torn tail when the stream has ended.
  size_t pending_bytes() const { return buffer_.size() - position_; }
  uint64_t offset() const { return consumed_ + position_; }
  // At the end of a stream with pending bytes: gives up the unfinished record and looks for another behind
  // its start (a damaged length may have swallowed good records). Call Next() again afterwards.
  void SkipPending();

 private:
  Result<std::optional<Record>> NextOfAnyType();
  bool FindMagic();
  Status Damaged(size_t skip_bytes, const std::string& reason);

  size_t max_payload_;
  std::string buffer_;
  size_t position_ = 0;
  uint64_t consumed_ = 0;
  bool skipping_ = false;
};

}  // namespace foreshock::wire
