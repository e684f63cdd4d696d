#include "foreshock/base/catalogue.h"

#include <algorithm>
#include <array>

namespace foreshock {
namespace {

using enum SignalScope;
using enum SignalMerge;

constexpr std::string_view kDesign = "docs/signals.md";
constexpr std::string_view kFailure = "arXiv 2510.04212, section 3";
constexpr std::string_view kRunaway = "arXiv 2606.28116";

constexpr SignalInfo kSignals[] = {
    {kLoss, "loss", "nat", kScalar, kWeightedMean,
     "training loss, token-weighted over the step's micro-batches", kDesign},
    {kGradNorm, "grad_norm", "1", kScalar, kReplicated, "global gradient norm, unscaled, before clipping",
     kDesign},
    {kLearningRate, "learning_rate", "1", kScalar, kReplicated, "learning rate of the step", kDesign},
    {kLossScale, "loss_scale", "1", kScalar, kReplicated, "loss scale of mixed-precision training", kDesign},
    {kTokens, "tokens", "tokens", kScalar, kSum, "tokens trained on in the step", kDesign},
    {kStepSeconds, "step_seconds", "s", kScalar, kMax, "wall time of the step", kDesign},
    {kProbeHostSeconds, "probe_host_seconds", "s", kScalar, kMax, "host time that Foreshock took in the step",
     kDesign},
    {kProbeDeviceSeconds, "probe_device_seconds", "s", kScalar, kMax,
     "device time that Foreshock took in the step", kDesign},
    {kSamplingInterval, "sampling_interval", "steps", kScalar, kMax,
     "steps between two sampled frames, set by the governor", kDesign},

    {kWqSigma1, "wq_sigma1", "1", kQueryHead, kReplicated,
     "largest singular value of the query projection of a head", kRunaway},
    {kWqSigma2, "wq_sigma2", "1", kQueryHead, kReplicated, "second singular value of the query projection",
     kRunaway},
    {kWqSigma3, "wq_sigma3", "1", kQueryHead, kReplicated, "third singular value of the query projection",
     kRunaway},
    {kWkSigma1, "wk_sigma1", "1", kKvHead, kReplicated,
     "largest singular value of the key projection of a head", kRunaway},
    {kWkSigma2, "wk_sigma2", "1", kKvHead, kReplicated, "second singular value of the key projection",
     kRunaway},
    {kWkSigma3, "wk_sigma3", "1", kKvHead, kReplicated, "third singular value of the key projection",
     kRunaway},
    {kWqStableRank, "wq_stable_rank", "1", kQueryHead, kReplicated,
     "squared Frobenius norm over squared largest singular value, query projection", kDesign},
    {kWkStableRank, "wk_stable_rank", "1", kKvHead, kReplicated,
     "squared Frobenius norm over squared largest singular value, key projection", kDesign},
    {kQkSigma1, "qk_sigma1", "1", kQueryHead, kReplicated,
     "largest singular value of W_Q W_K^T, the form that makes logits", kRunaway},
    {kUpdateProjection1, "update_projection_1", "1", kQueryHead, kSum,
     "growth of W_Q along its first singular pair over n single steps", kDesign},
    {kUpdateProjection2, "update_projection_2", "1", kQueryHead, kSum,
     "growth of W_Q along its second singular pair over n single steps", kDesign},
    {kUpdateProjection3, "update_projection_3", "1", kQueryHead, kSum,
     "growth of W_Q along its third singular pair over n single steps", kDesign},
    {kWkUpdateProjection1, "wk_update_projection_1", "1", kKvHead, kSum,
     "growth of W_K along its first singular pair over n single steps", kDesign},
    {kWkUpdateProjection2, "wk_update_projection_2", "1", kKvHead, kSum,
     "growth of W_K along its second singular pair over n single steps", kDesign},
    {kWkUpdateProjection3, "wk_update_projection_3", "1", kKvHead, kSum,
     "growth of W_K along its third singular pair over n single steps", kDesign},
    {kUpdateSignMean1, "update_sign_mean_1", "1", kQueryHead, kRatio,
     "mean sign of the single-step growths of W_Q along pair 1: 1 when all push one way", kDesign},
    {kUpdateSignMean2, "update_sign_mean_2", "1", kQueryHead, kRatio,
     "mean sign of the single-step growths of W_Q along pair 2", kDesign},
    {kUpdateSignMean3, "update_sign_mean_3", "1", kQueryHead, kRatio,
     "mean sign of the single-step growths of W_Q along pair 3", kDesign},
    {kWkUpdateSignMean1, "wk_update_sign_mean_1", "1", kKvHead, kRatio,
     "mean sign of the single-step growths of W_K along pair 1", kDesign},
    {kWkUpdateSignMean2, "wk_update_sign_mean_2", "1", kKvHead, kRatio,
     "mean sign of the single-step growths of W_K along pair 2", kDesign},
    {kWkUpdateSignMean3, "wk_update_sign_mean_3", "1", kKvHead, kRatio,
     "mean sign of the single-step growths of W_K along pair 3", kDesign},
    {kUpdateDriftRatio1, "update_drift_ratio_1", "1", kQueryHead, kRatio,
     "net over total growth of W_Q along pair 1: 0 for a walk, 1 for a drift", kDesign},
    {kUpdateDriftRatio2, "update_drift_ratio_2", "1", kQueryHead, kRatio,
     "net over total growth of W_Q along pair 2", kDesign},
    {kUpdateDriftRatio3, "update_drift_ratio_3", "1", kQueryHead, kRatio,
     "net over total growth of W_Q along pair 3", kDesign},
    {kWkUpdateDriftRatio1, "wk_update_drift_ratio_1", "1", kKvHead, kRatio,
     "net over total growth of W_K along pair 1", kDesign},
    {kWkUpdateDriftRatio2, "wk_update_drift_ratio_2", "1", kKvHead, kRatio,
     "net over total growth of W_K along pair 2", kDesign},
    {kWkUpdateDriftRatio3, "wk_update_drift_ratio_3", "1", kKvHead, kRatio,
     "net over total growth of W_K along pair 3", kDesign},
    {kUpdateNorm, "update_norm", "1", kQueryHead, kReplicated,
     "Frobenius norm of the single-step change of W_Q", kDesign},
    {kQkUpdateEntropy, "qk_update_entropy", "1", kQueryHead, kReplicated,
     "normalised spectral entropy of the first-order change of W_Q W_K^T", kRunaway},
    {kQkUpdateParticipation, "qk_update_participation", "1", kQueryHead, kReplicated,
     "participation ratio of the same spectrum: how many directions share the change", kRunaway},

    {kLogitMax, "logit_max", "1", kQueryHead, kMax, "largest attention score over the rows visited", kDesign},
    {kLogitMin, "logit_min", "1", kQueryHead, kMin, "smallest attention score over the rows visited",
     kDesign},
    {kTiedRowFraction, "tied_row_fraction", "1", kQueryHead, kRatio,
     "rows whose two largest scores differ by at most 1e-3", kFailure},
    {kTiedRowFractionBf16, "tied_row_fraction_bf16", "1", kQueryHead, kRatio,
     "the same with scores rounded to bf16 first", kFailure},
    {kUnitPRowFraction, "unit_p_row_fraction", "1", kQueryHead, kRatio,
     "rows in which a second exp(S - max) rounds to 1 in bf16", kFailure},
    {kSaturatedRowFraction, "saturated_row_fraction", "1", kQueryHead, kRatio,
     "rows whose largest probability is at least 0.99", kDesign},
    {kEntropyMean, "entropy_mean", "nat", kQueryHead, kRatio, "mean softmax entropy of a row",
     "arXiv 2303.06296"},
    {kLseMean, "lse_mean", "nat", kQueryHead, kRatio, "mean log-sum-exp of a row", kDesign},
    {kSinkWeightMean, "sink_weight_mean", "1", kQueryHead, kRatio, "mean probability on key 0",
     "arXiv 2309.17453"},
    {kLearnedSinkWeightMean, "learned_sink_weight_mean", "1", kQueryHead, kRatio,
     "mean probability on learned sinks", kDesign},

    {kOutputRoundingBias, "output_rounding_bias", "ulp", kQueryHead, kRatio,
     "mean signed error of the attention output away from zero, in bf16 ulp", kFailure},
    {kOutputRoundingBiasTied, "output_rounding_bias_tied", "ulp", kQueryHead, kRatio,
     "the same over rows with tied maxima", kFailure},
    {kOutputRoundingBiasOther, "output_rounding_bias_other", "ulp", kQueryHead, kRatio,
     "the same over the other rows", kFailure},
    {kDeltaOutputBias, "delta_output_bias", "1", kQueryHead, kRatio,
     "what the output's error does to delta = rowsum(dO O), relative to |delta|", kFailure},
    {kDeltaOutputSignMean, "delta_output_sign_mean", "1", kQueryHead, kRatio,
     "mean sign of the same row terms", kFailure},
    {kDeltaError, "delta_error", "1", kQueryHead, kRatio,
     "error in delta itself, estimated from dQ, relative to |delta|", "arXiv 2609.34272"},
    {kDeltaErrorSignMean, "delta_error_sign_mean", "1", kQueryHead, kRatio, "mean sign of the same row terms",
     "arXiv 2609.34272"},
};

}  // namespace

std::span<const SignalInfo> SignalCatalogue() { return kSignals; }

const SignalInfo* FindSignal(uint16_t id) {
  const auto* it = std::lower_bound(std::begin(kSignals), std::end(kSignals), id,
                                    [](const SignalInfo& info, uint16_t key) { return info.id < key; });
  return it != std::end(kSignals) && it->id == id ? it : nullptr;
}

const SignalInfo* FindSignal(std::string_view name) {
  const auto* it = std::find_if(std::begin(kSignals), std::end(kSignals),
                                [&](const SignalInfo& info) { return info.name == name; });
  return it != std::end(kSignals) ? it : nullptr;
}

std::optional<double> DisplayValue(const SignalInfo& info, double value, std::optional<double> weight) {
  if (info.merge != SignalMerge::kRatio) return value;
  if (!weight || *weight == 0) return std::nullopt;
  return value / *weight;
}

}  // namespace foreshock
