// The tables, for people and as JSON. Private.
#pragma once

#include <ostream>
#include <vector>

#include "foreshock/cli/tune.h"
#include "judge.h"

namespace foreshock::cli {

struct TuneResult {
  std::vector<LabelledRun> runs;
  std::vector<Verdicts> rules, references, left_out;
  std::vector<Verdicts> constants;  // empty where nobody asked
};

void PrintText(const TuneResult& result, const TuneOptions& options, const Style& style, std::ostream& out);
void PrintJson(const TuneResult& result, const TuneOptions& options, std::ostream& out);

}  // namespace foreshock::cli
