#include "step_view.h"

#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/base/catalogue.h"

namespace foreshock::detect {
namespace {

RunInfo TwoLayersOfFour() {
  RunInfo info;
  info.layers = 2;
  info.heads = 4;
  return info;
}

SeriesSample Of(uint32_t layer, std::vector<uint32_t> heads, std::vector<double> values) {
  SeriesSample series;
  series.signal = kLogitMax;
  series.layer = layer;
  series.heads = std::move(heads);
  series.values = std::move(values);
  return series;
}

StepSample With(int64_t step, std::vector<SeriesSample> series) {
  StepSample sample;
  sample.step = step;
  sample.series = std::move(series);
  return sample;
}

TEST(StepView, HeadsInOrderAndInAnyOrderAreTheSame) {
  SeriesSample ordered = Of(1, {1, 2, 3}, {5, std::nan(""), 7}),
               mixed = Of(1, {3, 1, 2}, {7, 5, std::nan("")});
  ordered.weights = {50, 60, 70};
  mixed.weights = {70, 50, 60};
  ordered.errors = {0.5};
  mixed.errors = {std::nan(""), 0.5};
  ordered.flags = mixed.flags = SeriesSample::kRotated;
  StepView a(TwoLayersOfFour()), b(TwoLayersOfFour());
  a.Load(With(0, {ordered}));
  b.Load(With(0, {mixed}));
  for (const StepView* view : {&a, &b}) {
    const HeadValues& heads = view->Heads(kLogitMax);
    EXPECT_TRUE(heads.any && view->has_heads());
    EXPECT_EQ(heads.present, (std::vector<uint8_t>{0, 0, 0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(heads.value[5], 5);
    EXPECT_TRUE(std::isnan(heads.value[6]));
    EXPECT_EQ(heads.value[7], 7);
    EXPECT_EQ(heads.weight[6], 60);
    EXPECT_EQ(heads.error[5], 0.5);
    EXPECT_TRUE(std::isnan(heads.error[6]) && std::isnan(heads.weight[0]));
    EXPECT_EQ(heads.flags[7], SeriesSample::kRotated);
  }
}

TEST(StepView, WeightsAndFlagsOfAnEarlierStepAreGone) {
  SeriesSample weighted = Of(0, {0, 1, 2, 3}, {1, 2, 3, 4});
  weighted.weights = weighted.errors = {9, 9, 9, 9};
  weighted.flags = SeriesSample::kLowResolution;
  StepView view(TwoLayersOfFour());
  view.Load(With(0, {weighted}));
  view.Load(With(1, {Of(0, {0, 1}, {5, 6})}));
  const HeadValues& heads = view.Heads(kLogitMax);
  EXPECT_EQ(heads.present, (std::vector<uint8_t>{1, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(heads.value[1], 6);
  EXPECT_TRUE(std::isnan(heads.weight[1]) && std::isnan(heads.error[1]));
  EXPECT_EQ(heads.flags[1], 0);
  view.Load(With(2, {}));
  EXPECT_FALSE(view.Heads(kLogitMax).any);
}

TEST(StepView, LayersAndHeadsBeyondTheShapeAreLeftOut) {
  StepView view(TwoLayersOfFour());
  view.Load(With(0, {Of(2, {0}, {1}), Of(1, {2, 3, 4}, {1, 2, 3}), Of(0, {}, {})}));
  const HeadValues& heads = view.Heads(kLogitMax);
  EXPECT_EQ(heads.present, (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(heads.value[7], 2);
}

}  // namespace
}  // namespace foreshock::detect
