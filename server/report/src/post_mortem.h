// The story of a run that went wrong: when it began, which head went first, the evidence, where to roll back
// to, what was done about it and what that did, how it ended, and what published runs did. Pure.
#pragma once

#include <string>
#include <vector>

#include "run_data.h"

namespace foreshock::report {

// One part for each run that collapsed, failed or had a critical alert; empty when there is none.
std::string PostMortems(const std::vector<RunData>& runs);

}  // namespace foreshock::report
