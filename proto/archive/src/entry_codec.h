// Payloads of an archive's entries: protobuf fields, so that later versions can add some. Private.
#pragma once

#include <string>
#include <string_view>

#include "foreshock/archive/entry.h"
#include "foreshock/base/result.h"

namespace foreshock::archive {

inline constexpr uint32_t kArchiveKind = 'A' | 'R' << 8 | 'C' << 16 | uint32_t{'V'} << 24;

// The record's type in the log. From kFirstOptional on a reader that does not know one may skip it.
enum class EntryType : uint8_t {
  kBegin = 1,
  kAttempt = 2,
  kProcess = 3,
  kFrame = 4,
  kEvent = 5,
  kQuarantined = 6,
  kUnmerged = 7,
  kNote = 8,
  kCounters = 9,
  kEnd = 10,
};
inline constexpr uint8_t kFirstOptional = 128;

EntryType TypeOf(const Entry& entry);
std::string Encode(const Entry& entry);
// kUnimplemented for a type that is not known, kInvalidArgument for a payload that is none, naming what is
// wrong.
Result<Entry> Decode(uint8_t type, std::string_view payload);

struct End {
  Counts counts;
  uint64_t entries = 0;  // before it
};
std::string Encode(const End& end);
Result<End> DecodeEnd(std::string_view payload);

void Count(const Entry& entry, Counts* counts);

}  // namespace foreshock::archive
