// Keys of the store's one key space (docs/formats/store.md). All numbers are big-endian, steps with the sign
// bit turned over, so that bytes compare as numbers do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "foreshock/server/store/types.h"

namespace foreshock::store {

// First byte of a key.
enum class Table : char {
  kFormat = '0',      // -> version of the format
  kNextRun = '1',     // -> the next run's number
  kAlive = '2',       // -> when the server was last alive
  kRun = 'R',         // run -> name, times
  kAttempt = 'A',     // run, attempt -> name, source of the name, time
  kSource = 'S',      // run, attempt, rank, incarnation -> incarnation's random number, Hello
  kCounters = 'C',    // the same -> SourceInfo's counters
  kFrame = 'F',       // run, attempt, rank, step, incarnation, seq -> frame
  kEvent = 'E',       // run, attempt, step, rank, incarnation, seq -> event
  kQuarantine = 'Q',  // run, attempt, rank, incarnation, seq -> type, reason, payload
  kUnmerged = 'U',    // run, attempt, step -> nothing
  kMeta = 'M',        // name of the run, kind, key -> value of another part
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
std::string EventKey(const SourceId& id, int64_t step, uint64_t seq);
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
