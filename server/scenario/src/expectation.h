// What a scenario expected against what came. Private; pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "foreshock/server/alert_core/alert.h"
#include "scenario_data.h"

namespace foreshock::scenario {

// What was expected and what came instead, in one sentence or two; nothing when it is as expected.
std::optional<std::string> Unmet(const Expectation& expectation,
                                 const std::vector<alert::AlertEvent>& events);

// "fires critical loss_divergence at 2040".
std::string Describe(const alert::AlertEvent& event);

}  // namespace foreshock::scenario
