// The bytes of headers and records, shared by reader and writer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foreshock::append_log {

inline constexpr std::string_view kMagic = "FSKLOG";
inline constexpr uint16_t kVersion = 1;

void PutU32(std::string* out, uint32_t value);
uint32_t GetU32(const char* bytes);

void AppendFileHeader(uint32_t kind, std::string* out);

enum class HeaderState { kGood, kDamaged, kOtherKind, kLaterVersion };
HeaderState CheckFileHeader(std::string_view header, uint32_t kind);

void AppendRecord(uint8_t type, std::string_view payload, std::string* out);

struct RecordHeader {
  uint32_t length;
  uint8_t type;
  uint32_t seed;         // crc32c of length and type, from which the payload's continues
  uint32_t payload_crc;  // as stored
};
// False when the check or the length is wrong. `bytes` holds at least kLogRecordOverhead bytes.
bool ParseRecordHeader(std::string_view bytes, RecordHeader* header);

}  // namespace foreshock::append_log
