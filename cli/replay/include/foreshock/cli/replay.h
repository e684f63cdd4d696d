// `foreshock replay`: runs the rules over a recording, as the server would have live.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "foreshock/server/detect/detector.h"

namespace foreshock::cli {

struct ReplayOptions {
  std::string path;   // text (.jsonl) or framed recording; told apart by its first bytes
  bool json = false;  // one JSON object a line (docs/rules) instead of a table
  std::vector<std::string> disabled_rules = {};  // names, e.g. "loss_spike"
  std::string rules_path = {};  // YAML of the user's rules, run beside the built-in ones; empty: none
};

// Exit status: 0, also when alerts fired; 2 when the recording or the file of rules cannot be read (the
// reason is on `err`, with its line number; events up to there are on `out`); 3 when a rule's name is
// unknown. Warnings go to `err`.
int RunReplay(const ReplayOptions& options, std::ostream& out, std::ostream& err);

}  // namespace foreshock::cli
