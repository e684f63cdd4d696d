// `foreshock import`: a run's past log, written by other tools, as a recording that `foreshock replay`,
// `tune` and the server read (docs/import.md).
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "foreshock/base/result.h"
#include "foreshock/wire/recording.h"

namespace foreshock::cli {

enum class LogFormat { kAuto, kCsv, kJsonl, kTrainerState, kTfevents };
// "auto", "csv", "jsonl", "trainer_state", "tfevents".
Result<LogFormat> ParseLogFormat(std::string_view name);

struct ImportOptions {
  std::string run = {};                 // name of the run; empty: the log's file name without its ending
  LogFormat format = LogFormat::kAuto;  // auto: by the first bytes
  std::string step_column = {};         // empty: step, global_step, iteration, ... whichever there is
  std::vector<std::string> map =
      {};                 // "COLUMN=SIGNAL": beside the names that are known; "COLUMN=" leaves it out
  uint32_t head_dim = 0;  // of the model, when the log has values of heads; 0: unknown
  bool json = false;      // what was taken is told as one JSON object
};

// What a log held.
struct Imported {
  std::vector<wire::RecordingItem>
      items;  // Hello, frames by step; Hello again where steps went back; Goodbye never
  std::vector<std::string> warnings;
  std::vector<std::string> columns_used, columns_left_out;  // "loss <- train/loss"; names
  int64_t frames = 0;
};

// Reads the text or bytes of a log. Outcomes: kInvalidArgument naming the line (or record and byte) and the
// column and value that cannot be read, an unknown signal or column in `map`, or that nothing in the log is a
// signal.
Result<Imported> ReadLog(std::string_view bytes, const std::string& file_name, const ImportOptions& options);

// As a recording: JSON lines when `path` ends in .jsonl, else framed.
std::string ToRecording(const Imported& imported, std::string_view path);

// Where an imported run goes besides a file; kInvalidArgument and so on as the receiver says.
using SendImported = std::function<Status(const Imported& imported)>;

// Reads `from`, writes `to` (whole or not at all; empty: no file), hands it to `send` (may be empty), tells
// on `out` what was taken; warnings on `err` (with options.json in the object). Exit status: 0; 1 when the
// receiver refuses it; 2 when the log cannot be read or holds nothing, or the recording cannot be written; 3
// when the receiver does not answer.
int RunImport(const std::string& from, const std::string& to, const ImportOptions& options,
              const SendImported& send, std::ostream& out, std::ostream& err);

}  // namespace foreshock::cli
