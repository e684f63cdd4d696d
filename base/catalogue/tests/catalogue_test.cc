#include "foreshock/base/catalogue.h"

#include <gtest/gtest.h>

#include <set>

namespace foreshock {
namespace {

TEST(Catalogue, IdsRiseAndNamesAreUnique) {
  std::set<std::string_view> names;
  uint16_t last = 0;
  for (const SignalInfo& info : SignalCatalogue()) {
    EXPECT_GT(info.id, last);
    last = info.id;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.meaning.empty());
    EXPECT_FALSE(info.source.empty());
  }
}

TEST(Catalogue, FindsByIdAndName) {
  ASSERT_NE(FindSignal(kQkSigma1), nullptr);
  EXPECT_EQ(FindSignal(kQkSigma1)->name, "qk_sigma1");
  ASSERT_NE(FindSignal("delta_error"), nullptr);
  EXPECT_EQ(FindSignal("delta_error")->id, kDeltaError);
  EXPECT_EQ(FindSignal(uint16_t{9999}), nullptr);
  EXPECT_EQ(FindSignal("no_such_signal"), nullptr);
}

// The numbers are on the wire and on disk: a change here breaks every recording.
TEST(Catalogue, NumbersAreForEver) {
  EXPECT_EQ(FindSignal("loss")->id, 1);
  EXPECT_EQ(FindSignal("wq_sigma1")->id, 32);
  EXPECT_EQ(FindSignal("qk_sigma1")->id, 40);
  EXPECT_EQ(FindSignal("update_projection_1")->id, 41);
  EXPECT_EQ(FindSignal("logit_max")->id, 96);
  EXPECT_EQ(FindSignal("output_rounding_bias")->id, 128);
  EXPECT_EQ(FindSignal("delta_error_sign_mean")->id, 134);
}

TEST(Catalogue, DisplayValueOfARatioIsTheQuotient) {
  const SignalInfo& ties = *FindSignal(kTiedRowFraction);
  EXPECT_EQ(DisplayValue(ties, 3, 12.0), 0.25);
  EXPECT_EQ(DisplayValue(ties, 0, 0.0), std::nullopt);
  EXPECT_EQ(DisplayValue(ties, 3, std::nullopt), std::nullopt);
  EXPECT_EQ(DisplayValue(*FindSignal(kLogitMax), 3, 12.0), 3);
}

}  // namespace
}  // namespace foreshock
