// A healthy run, made by formula with fixed pseudo-noise: the background of scenarios. The numbers imitate
// recorded healthy runs of small models; nothing here is a recording. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace foreshock::scenario {

// Pseudo-noise in [-1, 1], a pure function of its arguments.
double Noise(uint64_t a, uint64_t b, uint64_t c = 0);

// What a healthy run shows of a signal at a step: a scalar (`head` is not looked at), or a head by its index
// over all heads. nullopt for signals without a formula.
std::optional<double> HealthyValue(uint16_t signal, int64_t step, uint32_t head);

// The signals with a formula, scalars and those of heads.
std::span<const uint16_t> HealthyScalars();
std::span<const uint16_t> HealthyHeadSignals();

}  // namespace foreshock::scenario
