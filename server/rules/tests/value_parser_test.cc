#include "value_parser.h"

#include <gtest/gtest.h>

namespace foreshock::rules {
namespace {

TEST(ValueParser, Spans) {
  EXPECT_EQ(*ParseSpan("48 samples"), (detect::Span{48, 0}));
  EXPECT_EQ(*ParseSpan(" 1  step "), (detect::Span{0, 1}));
  for (const char* bad : {"", "48", "samples", "-1 steps", "0 steps", "4097 samples", "10000001 steps",
                          "99999999999999999999 steps", "4.5 steps", "4 seconds", "4 steps more"}) {
    EXPECT_FALSE(ParseSpan(bad).ok()) << bad;
  }
}

TEST(ValueParser, Reductions) {
  EXPECT_EQ(ParseReduction("quantile 1")->quantile, 1);
  for (const char* bad : {"", "quantile", "quantile 1.1", "quantile nan", "max 1", "Max", "p99"}) {
    EXPECT_FALSE(ParseReduction(bad).ok()) << bad;
  }
}

TEST(ValueParser, Conditions) {
  EXPECT_EQ(ParseCondition(">3")->threshold, 3);
  EXPECT_EQ(ParseCondition("<= -1e-4")->threshold, -1e-4);
  EXPECT_EQ(ParseCondition("<= -1e-4")->comparison, detect::Comparison::kLessEqual);
  for (const char* bad :
       {"", "3", ">", "> nan", "> inf", "> 1e999", "=> 3", "= 3", "> 3 x", ">> 3", "> 0x10"}) {
    EXPECT_FALSE(ParseCondition(bad).ok()) << bad;
  }
}

TEST(ValueParser, Ranges) {
  EXPECT_EQ(*ParseRange("7"), (detect::IndexRange{7, 7}));
  EXPECT_EQ(*ParseRange("0-65535"), (detect::IndexRange{0, 65535}));
  for (const char* bad : {"", "-1", "3-1", "0-65536", "1-", "-", "a", "1 - 2", "1-2-3"}) {
    EXPECT_FALSE(ParseRange(bad).ok()) << bad;
  }
}

TEST(ValueParser, SuggestsWhatIsClose) {
  EXPECT_EQ(DidYouMean("los", {"loss", "tokens"}), " (did you mean loss?)");
  EXPECT_EQ(DidYouMean("temperature", {"loss", "tokens"}), "");
  EXPECT_EQ(DidYouMean(std::string(100'000, 'x'), {"loss"}), "");
}

}  // namespace
}  // namespace foreshock::rules
