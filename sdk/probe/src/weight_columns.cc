#include "weight_columns.h"

#include <limits>

namespace foreshock::sdk {

using kernels::kPairs;

namespace {

uint16_t Next(uint16_t first, int i) { return static_cast<uint16_t>(first + i); }

}  // namespace

const SideSignals kQuerySide = {kWqSigma1, kWqStableRank, kUpdateProjection1, kUpdateSignMean1,
                                kUpdateDriftRatio1};
const SideSignals kKeySide = {kWkSigma1, kWkStableRank, kWkUpdateProjection1, kWkUpdateSignMean1,
                              kWkUpdateDriftRatio1};

void WriteSpectrum(const FrameLayout& layout, FrameSlot* slot, int32_t layer, const SideSignals& side,
                   uint32_t head, const kernels::HeadSpectrum& spectrum) noexcept {
  for (int i = 0; i < kPairs; ++i) {
    ColumnWriter writer(layout, slot, layer, Next(side.sigma1, i));
    if (i < spectrum.pairs) writer.Set(head, spectrum.sigma[i]);
  }
  ColumnWriter writer(layout, slot, layer, side.stable_rank);
  if (!spectrum.finite) {
    writer.Set(head, std::numeric_limits<double>::quiet_NaN());
  } else if (spectrum.has_stable_rank) {
    writer.Set(head, spectrum.stable_rank);
  }
}

void WriteUpdates(const FrameLayout& layout, FrameSlot* slot, int32_t layer, const SideSignals& side,
                  uint32_t head, const kernels::UpdateSums& sums) noexcept {
  const double n = sums.n;
  for (int i = 0; i < kPairs; ++i) {
    ColumnWriter projection(layout, slot, layer, Next(side.projection1, i));
    if (sums.HasProjection()) projection.Set(head, sums.sum_c[i], n);
    ColumnWriter sign(layout, slot, layer, Next(side.sign_mean1, i));
    if (sums.HasSignMean(i)) sign.Set(head, sums.sum_sign[i], n);
    ColumnWriter drift(layout, slot, layer, Next(side.drift_ratio1, i));
    if (sums.HasDriftRatio(i)) drift.Set(head, sums.sum_c[i], sums.sum_abs_c[i]);
    if (!sums.rotated[i]) continue;
    projection.SetRotated(head);
    sign.SetRotated(head);
    drift.SetRotated(head);
  }
}

}  // namespace foreshock::sdk
