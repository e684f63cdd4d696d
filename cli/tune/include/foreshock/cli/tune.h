// `foreshock tune`: replays runs whose fate is known and prints how early and how falsely each rule would
// have spoken, beside simple detectors that many use (docs/rules/tune.md).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "foreshock/cli/style.h"

namespace foreshock::cli {

struct TuneOptions {
  std::vector<std::string> recordings;
  std::string labels_path;  // JSON: {run: {"label","collapse_step","fault_onset_step","fault_head"}}
  std::string rules_path;   // rules of one's own, beside the built-in ones; empty: none
  bool json = false;
  bool runs = false;         // also a row for each run
  bool constants = false;    // also qk_runaway with other inner constants: 14 replays more
  int64_t bootstrap = 2000;  // resamples behind an interval
  uint64_t seed = 1;
};

// Exit status: 0; 2 when a file cannot be read, or a recording's run has no label. Complaints are on `err`.
int RunTune(const TuneOptions& options, const Style& style, std::ostream& out, std::ostream& err);

}  // namespace foreshock::cli
