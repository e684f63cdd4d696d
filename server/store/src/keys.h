// Keys of the store's one key space (docs/formats/store.md). All numbers are big-endian, steps with the sign
// bit turned over, so that bytes compare as numbers do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "foreshock/server/store/types.h"

namespace foreshock::store {

inline constexpr size_t kSealBytes = 4;  // before the payload in a value of kKept

// First byte of a key.
enum class Table : char {
  kFormat = '0',        // -> version of the format
  kNextRun = '1',       // -> the next run's number
  kAlive = '2',         // -> when the server was last alive
  kRun = 'R',           // run -> name, times
  kAttempt = 'A',       // run, attempt -> name, source of the name, time
  kSource = 'S',        // run, attempt, rank, incarnation -> incarnation's random number, Hello
  kCounters = 'C',      // the same -> SourceInfo's counters
  kFrame = 'F',         // run, attempt, rank, step, incarnation, seq -> frame
  kEvent = 'E',         // run, attempt, step, rank, incarnation, seq -> event
  kQuarantine = 'Q',    // run, attempt, rank, incarnation, seq -> type, reason, payload
  kUnmerged = 'U',      // run, attempt, step -> nothing
  kGroup = 'J',         // run, attempt, rank, first step, seal -> what the sealed group covers
  kChunk = 'K',         // the same, signal, layer, variant -> a column of the group, or its rows
  kRollup = 'I',        // run, attempt, rank, level, first step -> what a block of rollups covers
  kRollupColumn = 'L',  // the same, signal, layer -> its buckets of one series
  kKept = 'G',          // as kFrame -> seal, a frame that stays as it came
  kMeta = 'M',          // name of the run, kind, key -> value of another part
};

std::string FormatKey();
std::string NextRunKey();
std::string AliveKey();
std::string RunKey(uint32_t run);
std::string AttemptKey(uint32_t run, uint32_t attempt);
std::string SourceKey(Table table, const SourceId& id);
std::string FrameKey(const SourceId& id, int64_t step, uint64_t seq);
// What the keys of all frames of a rank begin with, without and with a step.
std::string FramePrefix(uint32_t run, uint32_t attempt, uint32_t rank);
std::string FramePrefix(uint32_t run, uint32_t attempt, uint32_t rank, int64_t step);
// Of kFrame or kKept.
std::string FrameKey(Table table, const SourceId& id, int64_t step, uint64_t seq);
std::string FramePrefix(Table table, uint32_t run, uint32_t attempt, uint32_t rank, int64_t step);
std::string SourcePrefix(Table table, uint32_t run, uint32_t attempt, uint32_t rank);
// Sealed groups. Chunks of a group stand together, its rows (signal 0) first.
std::string GroupKey(Table table, const SourceId& id, int64_t first_step, uint32_t seal);
struct ColumnName;
void AppendColumn(const ColumnName& name, std::string* group_key);
// What the chunk keys of a signal, or of a signal and layer, begin with.
void AppendColumnPrefix(uint16_t signal, std::string* group_key);
struct FramesOf;
// Blocks of rollups, and what their keys begin with.
std::string RollupKey(Table table, const FramesOf& source, uint32_t level, int64_t first_step);
std::string RollupPrefix(Table table, const FramesOf& source, uint32_t level);
void AppendRollupColumn(uint16_t signal, std::optional<uint32_t> layer, std::string* block_key);
std::string EventKey(const SourceId& id, int64_t step, uint64_t seq);
std::string UnmergedPrefix(uint32_t run, uint32_t attempt);
std::string EventPrefix(uint32_t run, uint32_t attempt);
std::string EventPrefix(uint32_t run, uint32_t attempt, int64_t step);
std::string QuarantineKey(const SourceId& id, uint64_t seq);
std::string UnmergedKey(uint32_t run, uint32_t attempt, int64_t step);
std::string MetaKey(std::string_view kind, std::string_view run, std::string_view key);
// Of all entries of a run; of a kind.
std::string MetaRunPrefix(std::string_view run);
// Everything of a run in one of the tables that begin with its number.
std::string TableRunPrefix(Table table, uint32_t run);
std::string TablePrefix(Table table);

// The least key above all that begin with `prefix`; empty: there is none.
std::string PrefixEnd(std::string prefix);

// Parts of keys, nullopt when the key is not of that form.
struct FrameKeyParts {
  SourceId source;
  int64_t step = 0;
  uint64_t seq = 0;
};
std::optional<FrameKeyParts> ParseFrameKey(std::string_view key);
std::optional<FrameKeyParts> ParseKeptKey(std::string_view key);
// The value of a kKept key; nullopt when it is too short to be one.
std::string KeptValue(uint32_t seal, std::string_view payload);
struct KeptParts {
  uint32_t seal = 0;
  std::string_view payload;  // into the value
};
std::optional<KeptParts> ParseKeptValue(std::string_view value);
// Of kQuarantine. A reason is cut at 65,535 bytes.
std::string QuarantineValue(wire::RecordType type, std::string_view reason, std::string_view payload);
struct QuarantineParts {
  wire::RecordType type{};
  std::string_view reason, payload;  // into the value
};
std::optional<QuarantineParts> ParseQuarantineValue(std::string_view value);
struct GroupKeyParts {
  SourceId source;  // incarnation 0
  int64_t first_step = 0;
  uint32_t seal = 0;
};
std::optional<GroupKeyParts> ParseGroupKey(std::string_view key);
std::optional<ColumnName> ParseColumn(std::string_view chunk_key);
struct RollupKeyParts {
  SourceId source;  // incarnation 0
  uint32_t level = 0;
  int64_t first_step = 0;
};
std::optional<RollupKeyParts> ParseRollupKeyParts(std::string_view key);
// Its first step.
std::optional<int64_t> ParseRollupKey(std::string_view key);
std::optional<std::pair<uint16_t, std::optional<uint32_t>>> ParseRollupColumn(std::string_view key);
std::optional<FrameKeyParts> ParseEventKey(std::string_view key);
// Of kSource, kCounters and kQuarantine (whose seq is filled in too).
std::optional<FrameKeyParts> ParseSourceKey(std::string_view key);
std::optional<FrameKeyParts> ParseUnmergedKey(std::string_view key);
std::optional<SourceId> ParseRunKey(std::string_view key);
std::optional<SourceId> ParseAttemptKey(std::string_view key);
struct MetaKeyParts {
  std::string_view kind, run, key;  // into the key
};
std::optional<MetaKeyParts> ParseMetaKey(std::string_view key);

}  // namespace foreshock::store
