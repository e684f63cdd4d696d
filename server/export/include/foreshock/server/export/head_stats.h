// Statistics over the heads of one series.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "foreshock/base/catalogue.h"
#include "foreshock/wire/types.h"

namespace foreshock::exporter {

struct HeadStats {
  double max = 0, median = 0, min = 0;
  uint32_t worst_head = 0;
  std::vector<std::pair<uint32_t, double>> heads;  // head and value, present ones
};

// nullopt when no head is there, or the series holds partial values.
std::optional<HeadStats> StatsOf(const SignalInfo& info, const wire::Series& series);

// What a scalar shows; nullopt when it is missing.
std::optional<double> ScalarOf(const SignalInfo& info, const wire::Series& series);

}  // namespace foreshock::exporter
