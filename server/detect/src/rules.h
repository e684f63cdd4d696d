// One maker a built-in rule; each rule is the .cc file of its name.
#pragma once

#include <memory>

#include "rule.h"

namespace foreshock::detect {

std::unique_ptr<Rule> MakeQkRunaway(const RunInfo& info, const QkRunawayConstants& constants);
std::unique_ptr<Rule> MakeLogitSaturation(const RunInfo& info);
std::unique_ptr<Rule> MakeTiedRowsRising(const RunInfo& info);
std::unique_ptr<Rule> MakeUpdateSignCoherence(const RunInfo& info);
std::unique_ptr<Rule> MakeRoundingBias(const RunInfo& info);
std::unique_ptr<Rule> MakeDeltaError(const RunInfo& info);
std::unique_ptr<Rule> MakeEntropyCollapse(const RunInfo& info);
std::unique_ptr<Rule> MakeLossSpike();
std::unique_ptr<Rule> MakeLossDivergence();
std::unique_ptr<Rule> MakeDeadPlateau(const RunInfo& info);
std::unique_ptr<Rule> MakeGradNormSpike();
std::unique_ptr<Rule> MakeLossScaleCollapse();
std::unique_ptr<Rule> MakeNonFinite();
std::unique_ptr<Rule> MakeStalled();
std::unique_ptr<Rule> MakeUnmonitored();
std::unique_ptr<Rule> MakeGuardMissing();
std::unique_ptr<Rule> MakeGuardActive();
std::unique_ptr<Rule> MakeTwoWriters();

}  // namespace foreshock::detect
