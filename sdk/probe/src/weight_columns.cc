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

void WritePartials(const FrameLayout& layout, FrameSlot* slot, int32_t layer, const SideSignals& side,
                   ProjectionTracker& tracker) noexcept {
  uint32_t n = tracker.partial_count();
  // A trainer that went back in steps without saying so: the window means nothing.
  for (uint32_t k = 0; k < n; ++k) {
    if (tracker.partial_step(k) > slot->step) n = 0;
  }
  for (int p = 0; p < kPairs; ++p) {
    const uint16_t signal = Next(side.projection1, p);
    const int32_t at = layout.Find(layer, signal);
    if (at < 0) continue;
    const Column& column = layout.columns()[static_cast<size_t>(at)];
    PartialSlot& partial = slot->partials[static_cast<size_t>(column.part)];
    ColumnWriter writer(layout, slot, layer, signal);
    partial.n = n;
    for (uint32_t k = 0; k < n; ++k) {
      partial.step_offsets[k] = static_cast<uint32_t>(slot->step - tracker.partial_step(k));
    }
    for (size_t m = 0; m < tracker.count(); ++m) {
      const uint32_t head = tracker.heads()[m];
      const kernels::UpdateSums sums = p + 1 == kPairs ? tracker.Take(m) : tracker.Peek(m);
      partial.hashes[head] = tracker.partial_hash(m);
      if (n > 0) writer.SetPartial(head, tracker.partial(m, p), n);
      if (sums.rotated[p]) writer.SetRotated(head);
    }
  }
  tracker.EndPartialWindow();
}

}  // namespace foreshock::sdk
