#include "foreshock/base/append_log_format.h"

#include "foreshock/base/append_log.h"
#include "foreshock/base/crc32c.h"

namespace foreshock::append_log {
namespace {

constexpr uint32_t kCheckMask = 0xFFFFFFu;
constexpr size_t kTagOffset = 8;
constexpr size_t kCrcOffset = 12;

// What a record's checksums begin with: length and type, the file's tag, the offset. A block of another file,
// or of another place in this one, cannot pass for a record.
uint32_t Seed(std::string_view length_and_type, std::string_view tag, uint64_t offset) {
  char place[8];
  for (size_t i = 0; i < sizeof place; ++i) place[i] = static_cast<char>(offset >> (8 * i));
  return Crc32cExtend(Crc32cExtend(Crc32c(length_and_type), tag), place, sizeof place);
}

}  // namespace

void PutU32(std::string* out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

uint32_t GetU32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

void AppendFileHeader(uint32_t kind, uint32_t tag, std::string* out) {
  std::string header(kMagic);
  header.push_back(static_cast<char>(kVersion & 0xFF));
  header.push_back(static_cast<char>(kVersion >> 8));
  PutU32(&header, kind);
  PutU32(&header, tag);
  PutU32(&header, Crc32c(header));
  out->append(header);
}

HeaderState CheckFileHeader(std::string_view header, uint32_t kind, uint32_t* tag) {
  if (header.size() < kLogHeaderBytes || !header.starts_with(kMagic)) return HeaderState::kDamaged;
  if (GetU32(header.data() + 16) != Crc32c(header.substr(0, 16))) return HeaderState::kDamaged;
  const uint32_t version = static_cast<unsigned char>(header[6]) |
                           static_cast<uint32_t>(static_cast<unsigned char>(header[7])) << 8;
  if (version != kVersion) return HeaderState::kLaterVersion;
  *tag = GetU32(header.data() + 12);
  return GetU32(header.data() + 8) == kind ? HeaderState::kGood : HeaderState::kOtherKind;
}

void AppendRecord(uint8_t type, std::string_view payload, uint32_t tag, uint64_t offset, std::string* out) {
  std::string header;
  PutU32(&header, static_cast<uint32_t>(payload.size()));
  header.push_back(static_cast<char>(type));
  std::string tag_bytes;
  PutU32(&tag_bytes, tag);
  const uint32_t seed = Seed(header, tag_bytes, offset);
  for (int shift = 0; shift < 24; shift += 8) header.push_back(static_cast<char>(seed >> shift));
  header += tag_bytes;
  PutU32(&header, Crc32cExtend(seed, payload));
  out->append(header);
  out->append(payload);
}

bool ParseRecordHeader(std::string_view bytes, uint64_t offset, RecordHeader* header) {
  header->length = GetU32(bytes.data());
  header->type = static_cast<uint8_t>(bytes[4]);
  header->tag = GetU32(bytes.data() + kTagOffset);
  header->payload_crc = GetU32(bytes.data() + kCrcOffset);
  if (header->length > kMaxLogPayloadBytes) return false;
  header->seed = Seed(bytes.substr(0, 5), bytes.substr(kTagOffset, 4), offset);
  // Bytes 4..7 are the type and the three bytes of the check.
  return (GetU32(bytes.data() + 4) >> 8) == (header->seed & kCheckMask);
}

}  // namespace foreshock::append_log
