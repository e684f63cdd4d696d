// The bytes inside the spool's logs (docs/formats/spool.md), and the names of its files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "foreshock/agent/spool.h"
#include "foreshock/base/append_log.h"
#include "index.h"

namespace foreshock::agent {

inline constexpr uint32_t kSegmentKind = LogKind("SPOL");
inline constexpr uint32_t kAckKind = LogKind("SACK");
inline constexpr uint32_t kIndexKind = LogKind("SIDX");

// Record types of a segment; below kFirstReservedType: data, the type is the record's own.
inline constexpr uint8_t kFirstReservedType = 0xF0;
inline constexpr uint8_t kSegmentType = 0xF0;  // first record: when the segment was begun
inline constexpr uint8_t kSourceType = 0xF1;   // declares a source's id within this segment
// Record type of the ack file.
inline constexpr uint8_t kAckType = 1;
// Record types of a segment's index file: one head, the ranges, one end.
inline constexpr uint8_t kIndexHeadType = 1;
inline constexpr uint8_t kIndexRangeType = 2;
inline constexpr uint8_t kIndexEndType = 3;

// Bytes of data records besides the payload.
inline constexpr uint64_t kDataOverhead = 12;

std::string SegmentName(uint64_t number);
std::optional<uint64_t> ParseSegmentName(std::string_view name);

std::string EncodeSegment(int64_t created_unix_ns);
bool DecodeSegment(std::string_view bytes, int64_t* created_unix_ns);

std::string EncodeSource(uint32_t id, const SourceKey& key, std::string_view hello);
bool DecodeSource(std::string_view bytes, uint32_t* id, SourceKey* key, std::string* hello);

void EncodeData(uint32_t id, uint64_t seq, std::string_view payload, std::string* out);
struct DataView {
  uint32_t id;
  uint64_t seq;
  std::string_view payload;
};
std::optional<DataView> DecodeData(std::string_view bytes);

std::string EncodeIndexHead(int64_t created_unix_ns, uint64_t segment_bytes);
bool DecodeIndexHead(std::string_view bytes, int64_t* created_unix_ns, uint64_t* segment_bytes);
std::string EncodeRange(const Range& range, const SourceKey& key, std::string_view hello);
bool DecodeRange(std::string_view bytes, Range* range, SourceKey* key, std::string* hello);

std::string EncodeAck(const SourceKey& key, uint64_t seq);
bool DecodeAck(std::string_view bytes, SourceKey* key, uint64_t* seq);

}  // namespace foreshock::agent
