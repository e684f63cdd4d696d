#include "attention_columns.h"

namespace foreshock::sdk {

using kernels::AttentionHeadStats;
using kernels::RatioSums;
using kernels::RoundingHeadStats;

namespace {

void WriteRatio(ColumnWriter writer, uint32_t head, const RatioSums& sums) noexcept {
  if (!sums.HasValue()) return;
  writer.Set(head, sums.num, sums.den);
  writer.SetMoments(head, sums.rows, sums.num_num, sums.num_den, sums.den_den);
}

void WriteSign(ColumnWriter writer, uint32_t head, double sum, double rows) noexcept {
  if (rows > 0) writer.Set(head, sum, rows);
}

}  // namespace

void WriteAttention(const FrameLayout& layout, FrameSlot* slot, int32_t layer,
                    const AttentionHeadStats* heads, uint32_t count, bool learned_sinks) noexcept {
  const auto column = [&](uint16_t signal) { return ColumnWriter(layout, slot, layer, signal); };
  ColumnWriter logit_max = column(kLogitMax), logit_min = column(kLogitMin), tied = column(kTiedRowFraction),
               tied_bf16 = column(kTiedRowFractionBf16), unit_p = column(kUnitPRowFraction),
               saturated = column(kSaturatedRowFraction), entropy = column(kEntropyMean),
               lse = column(kLseMean), sink = column(kSinkWeightMean);
  for (uint32_t h = 0; h < count; ++h) {
    const AttentionHeadStats& head = heads[h];
    if (!(head.rows > 0)) continue;
    logit_max.Set(h, head.logit_max, head.rows_visited);
    logit_min.Set(h, head.logit_min, head.rows_visited);
    tied.Set(h, head.tied_rows, head.rows);
    tied_bf16.Set(h, head.tied_rows_bf16, head.rows);
    unit_p.Set(h, head.unit_p_rows, head.rows);
    saturated.Set(h, head.saturated_rows, head.rows);
    entropy.Set(h, head.entropy_sum, head.rows);
    lse.Set(h, head.lse_sum, head.rows);
    sink.Set(h, head.sink_weight_sum, head.rows);
    if (learned_sinks) column(kLearnedSinkWeightMean).Set(h, head.learned_sink_weight_sum, head.rows);
  }
}

void WriteRounding(const FrameLayout& layout, FrameSlot* slot, int32_t layer, const RoundingHeadStats* heads,
                   uint32_t count, RoundingGiven given) noexcept {
  const auto column = [&](uint16_t signal) { return ColumnWriter(layout, slot, layer, signal); };
  for (uint32_t h = 0; h < count; ++h) {
    const RoundingHeadStats& head = heads[h];
    WriteRatio(column(kOutputRoundingBias), h, head.output_bias);
    WriteRatio(column(kOutputRoundingBiasTied), h, head.output_bias_tied);
    WriteRatio(column(kOutputRoundingBiasOther), h, head.output_bias_other);
    if (!given.d_o) continue;
    WriteRatio(column(kDeltaOutputBias), h, head.delta_output);
    WriteSign(column(kDeltaOutputSignMean), h, head.delta_output_sign, head.delta_output.rows);
    if (!given.dq) continue;
    WriteRatio(column(kDeltaError), h, head.delta_error);
    WriteSign(column(kDeltaErrorSignMean), h, head.delta_error_sign, head.delta_error.rows);
  }
}

}  // namespace foreshock::sdk
