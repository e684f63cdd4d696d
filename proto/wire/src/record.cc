#include "foreshock/wire/record.h"

#include <algorithm>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "foreshock/base/crc32c.h"

namespace foreshock::wire {
namespace {

constexpr std::string_view kMagic = "FSK1";
constexpr uint8_t kVersion = 1;
constexpr size_t kHeader = 12;

void PutU32(uint32_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>((value >> shift) & 0xff));
}

uint32_t GetU32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return value;
}

bool IsRecord(uint32_t type) { return type >= 1 && type <= kLastRecordType; }

struct Found {
  RecordType type{};
  std::string_view payload;
};

// The record in a message, the last one if there are several.
Result<Found> FindRecord(std::string_view bytes) {
  try {
    protozero::pbf_reader reader{bytes.data(), bytes.size()};
    std::optional<Found> found;
    while (reader.next()) {
      const auto tag = reader.tag();
      if (IsRecord(tag) && tag != static_cast<uint32_t>(RecordType::kReply) &&
          reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
        const auto view = reader.get_view();
        found = Found{static_cast<RecordType>(tag), {view.data(), view.size()}};
      } else {
        reader.skip();
      }
    }
    if (!found) return Status(Code::kInvalidArgument, "record: none in the message");
    return *found;
  } catch (const protozero::exception& e) {
    return Status(Code::kInvalidArgument, std::string("record: malformed protobuf: ") + e.what());
  }
}

}  // namespace

void AppendRecord(RecordType type, std::string_view payload, std::string* out) {
  const size_t start = out->size();
  out->append(kMagic);
  out->push_back(static_cast<char>(kVersion));
  out->push_back(static_cast<char>(type));
  out->append(2, '\0');
  PutU32(static_cast<uint32_t>(payload.size()), out);
  out->append(payload);
  PutU32(Crc32c(std::string_view(*out).substr(start + 4)), out);
}

std::string ToIngestRequest(RecordType type, std::string_view payload) {
  std::string out;
  out.reserve(payload.size() + 8);
  protozero::pbf_writer{out}.add_bytes(static_cast<protozero::pbf_tag_type>(type), payload.data(),
                                       payload.size());
  return out;
}

Result<Record> FromIngestRequest(std::string_view bytes) {
  FS_ASSIGN_OR_RETURN(const Found found, FindRecord(bytes));
  Record record;
  record.type = found.type;
  record.payload.assign(found.payload);
  return record;
}

Result<Record> FromIngestRequest(std::string&& bytes) {
  FS_ASSIGN_OR_RETURN(const Found found, FindRecord(bytes));
  Record record;
  record.type = found.type;
  const auto begin = static_cast<size_t>(found.payload.data() - bytes.data());
  bytes.resize(begin + found.payload.size());
  bytes.erase(0, begin);
  record.payload = std::move(bytes);
  return record;
}

void RecordParser::Feed(std::string_view bytes) {
  if (position_ > 0 && position_ * 2 >= buffer_.size()) {
    buffer_.erase(0, position_);
    consumed_ += position_;
    position_ = 0;
  }
  buffer_.append(bytes);
}

// Moves to the next place where a magic stands or may begin; false when all bytes are used up.
bool RecordParser::FindMagic() {
  while (position_ < buffer_.size()) {
    const std::string_view rest = std::string_view(buffer_).substr(position_, kMagic.size());
    if (rest == kMagic.substr(0, rest.size())) return true;
    ++position_;
  }
  return false;
}

Status RecordParser::Damaged(size_t skip_bytes, const std::string& reason) {
  const uint64_t at = offset();
  position_ += skip_bytes;
  skipping_ = true;
  return Status(Code::kDataLoss, "record at byte " + std::to_string(at) + ": " + reason);
}

void RecordParser::SkipPending() {
  position_ = std::min(position_ + 1, buffer_.size());
  skipping_ = true;
}

Result<std::optional<Record>> RecordParser::Next() {
  for (;;) {
    FS_ASSIGN_OR_RETURN(auto record, NextOfAnyType());
    if (!record.has_value() || IsRecord(static_cast<uint8_t>(record->type))) return record;
  }
}

Result<std::optional<Record>> RecordParser::NextOfAnyType() {
  if (skipping_ && !FindMagic()) return std::optional<Record>();
  skipping_ = false;
  const std::string_view rest = std::string_view(buffer_).substr(position_);
  const size_t magic = std::min(rest.size(), kMagic.size());
  if (rest.substr(0, magic) != kMagic.substr(0, magic)) return Damaged(1, "no FSK1 magic");
  if (rest.size() < kHeader) return std::optional<Record>();
  const uint8_t version = static_cast<uint8_t>(rest[4]);
  const uint8_t type = static_cast<uint8_t>(rest[5]);
  const uint32_t length = GetU32(rest.data() + 8);
  if (version != kVersion) {
    return Damaged(4,
                   "version " + std::to_string(version) + ", this build reads " + std::to_string(kVersion));
  }
  if (length > max_payload_) {
    return Damaged(4, "length " + std::to_string(length) + ", at most " + std::to_string(max_payload_));
  }
  const size_t total = kHeader + length + 4;
  if (rest.size() < total) return std::optional<Record>();
  if (Crc32c(rest.substr(4, kHeader - 4 + length)) != GetU32(rest.data() + kHeader + length)) {
    return Damaged(4, "checksum does not match");
  }
  Record record;
  record.type = static_cast<RecordType>(type);
  record.payload.assign(rest.substr(kHeader, length));
  position_ += total;
  return std::optional<Record>(std::move(record));
}

}  // namespace foreshock::wire
