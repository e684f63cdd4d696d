// `foreshock rules check` and `foreshock rules test`. Neither needs a server.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace foreshock::cli {

// Reads files of rules as the server would. A line per error, "FILE:LINE:COLUMN: what is wrong", then one per
// good file with its rules' count. With `json` one object a file:
// {"file","rules":[names],"errors":[{"line","column", "message"}]}. Exit status: 0 all are good, 2 some are
// not or cannot be read.
int RunRulesCheck(const std::vector<std::string>& files, bool json, std::ostream& out, std::ostream& err);

struct RulesTestOptions {
  std::vector<std::string> files;  // scenario files
  std::string rules_path;          // for those that name no rules of their own; empty: built-in ones alone
  bool json = false;
  bool verbose = false;  // also what fired in scenarios that passed
};

// Plays scenario files. A line per scenario, "ok" or "FAILED"; under the latter each expectation that was not
// met with its place, and all that fired. With `json` one object a scenario:
// {"file","scenario","passed","failures":[..], "events":[..]}. Exit status: 0 all passed, 1 some failed, 2 a
// file is wrong or cannot be read.
int RunRulesTest(const RulesTestOptions& options, std::ostream& out, std::ostream& err);

}  // namespace foreshock::cli
