// The signal catalogue: every signal that Foreshock measures, once. The wire, the store, the exporter, the
// documentation and the dashboards take names, units, meanings and merge rules from here.
//
// Numbers are for ever: a signal keeps its id, a retired id is never used again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace foreshock {

enum class SignalScope : uint8_t {
  kScalar,     // one value a step
  kQueryHead,  // one value per layer and query head
  kKvHead,     // one value per layer and key/value head
};

// How the values of several ranks, or of several micro-batches, become one. `weight` is what travels beside a
// value: rows visited, n, tokens, or the denominator of a ratio.
enum class SignalMerge : uint8_t {
  kMax,           // largest value; NaN wins; weights (rows visited) add up
  kMin,           // smallest value; NaN wins; weights add up
  kRatio,         // value is the numerator, weight the denominator; both add up; what users see is their quotient
  kSum,           // values add up; weight is n, the number of single steps, and stays
  kWeightedMean,  // value is a mean, weight its count: mean of the ranks' means by weight
  kReplicated,    // the same on every rank that sends it (disjoint heads, or copies): the lowest rank's, NaN wins
};

struct SignalInfo {
  uint16_t id;
  std::string_view name;     // snake_case, e.g. "wq_sigma1"
  std::string_view unit;     // "1" for pure numbers
  SignalScope scope;
  SignalMerge merge;
  std::string_view meaning;  // one sentence
  std::string_view source;   // paper and equation, or where the formula is written down
};

// Ids for code that names a signal. The catalogue holds one SignalInfo for each.
enum SignalId : uint16_t {
  kLoss = 1, kGradNorm = 2, kLearningRate = 3, kLossScale = 4, kTokens = 5, kStepSeconds = 6,
  kProbeHostSeconds = 7, kProbeDeviceSeconds = 8, kSamplingInterval = 9,

  kWqSigma1 = 32, kWqSigma2 = 33, kWqSigma3 = 34, kWkSigma1 = 35, kWkSigma2 = 36, kWkSigma3 = 37,
  kWqStableRank = 38, kWkStableRank = 39, kQkSigma1 = 40,
  kUpdateProjection1 = 41, kUpdateProjection2 = 42, kUpdateProjection3 = 43,
  kWkUpdateProjection1 = 44, kWkUpdateProjection2 = 45, kWkUpdateProjection3 = 46,
  kUpdateSignMean1 = 47, kUpdateSignMean2 = 48, kUpdateSignMean3 = 49,
  kWkUpdateSignMean1 = 50, kWkUpdateSignMean2 = 51, kWkUpdateSignMean3 = 52,
  kUpdateDriftRatio1 = 53, kUpdateDriftRatio2 = 54, kUpdateDriftRatio3 = 55,
  kWkUpdateDriftRatio1 = 56, kWkUpdateDriftRatio2 = 57, kWkUpdateDriftRatio3 = 58,
  kUpdateNorm = 59, kQkUpdateEntropy = 60, kQkUpdateParticipation = 61,

  kLogitMax = 96, kLogitMin = 97, kTiedRowFraction = 98, kTiedRowFractionBf16 = 99, kUnitPRowFraction = 100,
  kSaturatedRowFraction = 101, kEntropyMean = 102, kLseMean = 103, kSinkWeightMean = 104,
  kLearnedSinkWeightMean = 105,

  kOutputRoundingBias = 128, kOutputRoundingBiasTied = 129, kOutputRoundingBiasOther = 130,
  kDeltaOutputBias = 131, kDeltaOutputSignMean = 132, kDeltaError = 133, kDeltaErrorSignMean = 134,
};

// All signals, by rising id.
std::span<const SignalInfo> SignalCatalogue();

// The entry of an id or a name; nullptr when there is none.
const SignalInfo* FindSignal(uint16_t id);
const SignalInfo* FindSignal(std::string_view name);

// What a user sees of a (value, weight) pair: the quotient for kRatio, else the value. Missing (nullopt) when a
// ratio's weight is 0 or absent.
std::optional<double> DisplayValue(const SignalInfo& info, double value, std::optional<double> weight);

}  // namespace foreshock
