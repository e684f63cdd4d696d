// What is known of runs that are over. Private.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "foreshock/base/result.h"

namespace foreshock::cli {

struct Truth {
  enum class Label : uint8_t {
    kHealthy,    // also runs with spikes that recover: whatever speaks is wrong
    kCollapse,   // learned, then lost it at collapse_step
    kFailed,     // never learned
    kDamaged,    // worse for good, no collapse
    kContained,  // a guard held it
  } label = Label::kHealthy;
  int64_t onset = 0;                       // of the fault; what speaks before it is wrong
  std::optional<int64_t> collapse;         // of kCollapse
  std::optional<std::array<int, 2>> head;  // layer and head of the fault, where it is in one
};

// By name of the run. kInvalidArgument naming line, or run and field.
Result<std::map<std::string, Truth>> ParseLabels(std::string_view json);

}  // namespace foreshock::cli
