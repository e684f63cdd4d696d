// What the readers of the formats hand on: one row at a time, names and numbers. Private.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"

namespace foreshock::cli {

struct Cell {
  std::string column;
  std::string text;  // as it stands in the log; empty: missing. "NaN", "inf" and the like are values
};

struct Row {
  std::string place;  // "line 7", "record 3 at byte 210": for complaints
  std::vector<Cell> cells;
  uint64_t time_unix_ns = 0;  // 0: not told
};

// What is wrong on a line of the log.
inline Status At(size_t line, const std::string& what) {
  return Status(Code::kInvalidArgument, "line " + std::to_string(line) + ": " + what);
}

using OnRow = std::function<Status(Row)>;

// The readers. Each stops at the first error, its own or that of `each`; damage is kInvalidArgument with its
// place. A torn end, where a writer was killed, is a warning.
Status ReadCsv(std::string_view text, const OnRow& each, std::vector<std::string>* warnings);
Status ReadJsonRows(std::string_view text, const OnRow& each, std::vector<std::string>* warnings);
// {"log_history": [rows]}, as the Hugging Face Trainer saves.
Status ReadTrainerState(std::string_view text, const OnRow& each, std::vector<std::string>* warnings);
Status ReadTfevents(std::string_view bytes, const OnRow& each, std::vector<std::string>* warnings);

// Whether the bytes begin as an event file does: a record with right checksums of its length.
bool LooksLikeTfevents(std::string_view bytes);

// Python's bare NaN, Infinity and -Infinity, which JSON does not know, as strings. Line numbers stay.
std::string QuoteBareNumbers(std::string_view json);

}  // namespace foreshock::cli
