// One maker a built-in rule; each rule is the .cc file of its name.
#pragma once

#include <memory>

#include "rule.h"

namespace foreshock::detect {

std::unique_ptr<Rule> MakeNonFinite();

}  // namespace foreshock::detect
