// What published runs with the same trouble did, and what helped them. Pure.
#pragma once

#include <string_view>
#include <vector>

namespace foreshock::report {

struct PublishedCase {
  std::string_view source;  // paper and its arXiv number
  std::string_view text;    // what was seen, and what helped
};

// Those that resemble what a built-in rule sees; empty for other rules.
std::vector<PublishedCase> PublishedCasesOf(std::string_view rule);

}  // namespace foreshock::report
