#include "references.h"

#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/base/catalogue.h"

namespace foreshock::cli {
namespace {

class ReferencesTest : public testing::Test {
 protected:
  std::optional<double> Score(const std::string& name, const detect::StepSample& sample) {
    for (const auto& reference : references_) {
      if (reference->name() == name) return reference->Score(sample);
    }
    ADD_FAILURE() << "no reference " << name;
    return std::nullopt;
  }
  detect::StepSample Loss(double loss) {
    detect::StepSample sample;
    sample.step = ++step_;
    sample.scalars.push_back({kLoss, loss});
    return sample;
  }

  std::vector<std::unique_ptr<Reference>> references_ = MakeReferences({.layers = 1, .heads = 2});
  int64_t step_ = 0;
};

TEST_F(ReferencesTest, LargestLogitOfAllHeads) {
  detect::StepSample sample;
  EXPECT_EQ(Score("largest logit", sample), std::nullopt);
  for (uint32_t layer = 0; layer < 2; ++layer) {
    detect::SeriesSample series;
    series.signal = kLogitMax;
    series.layer = layer;
    series.heads = {0, 1};
    series.values = {3.0 + layer, 1};
    sample.series.push_back(series);
  }
  EXPECT_EQ(Score("largest logit", sample), 4);
  sample.series[0].values[1] = std::nan("");
  EXPECT_TRUE(std::isinf(*Score("largest logit", sample)));
}

TEST_F(ReferencesTest, SigmasAfter128SamplesAndNanIsFarOff) {
  const std::string name = "loss, sigmas of 128 samples";
  for (int i = 0; i < 128; ++i) EXPECT_EQ(Score(name, Loss(i % 2 == 0 ? 1 : 3)), std::nullopt);
  EXPECT_DOUBLE_EQ(*Score(name, Loss(9)), 7);
  EXPECT_TRUE(std::isinf(*Score(name, Loss(std::nan("")))));
}

TEST_F(ReferencesTest, LightningComparesWithTheRunningMeanOfTen) {
  const std::string name = "loss spike as Lightning's";
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Score(name, Loss(2)), 0);
  EXPECT_DOUBLE_EQ(*Score(name, Loss(6)), 2);
  EXPECT_DOUBLE_EQ(*Score(name, Loss(2.4)), 0);  // the mean is 2.4 now
}

}  // namespace
}  // namespace foreshock::cli
