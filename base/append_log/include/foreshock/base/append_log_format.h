// The bytes of an append log's header and records (docs/formats/append_log.md), for whoever writes or reads
// them other than in a file: the log's own reader and writer, and archives of runs, which travel as streams.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foreshock::append_log {

inline constexpr std::string_view kMagic = "FSKLOG";
inline constexpr uint16_t kVersion = 1;

void PutU32(std::string* out, uint32_t value);
uint32_t GetU32(const char* bytes);

// `tag` is the file's own, drawn when it is begun.
void AppendFileHeader(uint32_t kind, uint32_t tag, std::string* out);

enum class HeaderState { kGood, kDamaged, kOtherKind, kLaterVersion };
// *tag is set when the header is good.
HeaderState CheckFileHeader(std::string_view header, uint32_t kind, uint32_t* tag);

// `offset` is where the record begins in the file.
void AppendRecord(uint8_t type, std::string_view payload, uint32_t tag, uint64_t offset, std::string* out);

struct RecordHeader {
  uint32_t length;
  uint8_t type;
  uint32_t tag;
  uint32_t seed;         // crc32c of length, type, tag and offset, from which the payload's continues
  uint32_t payload_crc;  // as stored
};
// False when the check or the length is wrong. `bytes` holds at least kLogRecordOverhead bytes; they lie at
// `offset` in the file.
bool ParseRecordHeader(std::string_view bytes, uint64_t offset, RecordHeader* header);

}  // namespace foreshock::append_log
