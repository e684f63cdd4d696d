#include "foreshock/cli/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "foreshock/cli/table.h"

namespace foreshock::cli {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<std::optional<double>>;

TEST(Sparkline, RisesFromLowestToHighest) {
  EXPECT_EQ(Sparkline(Values{0, 1, 2, 3, 4, 5, 6, 7}, 8), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(Sparkline(Values{7, 0}, 80), "█▁") << "fewer values than columns are not stretched";
}

TEST(Sparkline, ConstantAndEmpty) {
  EXPECT_EQ(Sparkline(Values{5, 5, 5}, 10), "▁▁▁");
  EXPECT_EQ(Sparkline(Values{}, 10), "");
  EXPECT_EQ(Sparkline(Values{1, 2}, 0), "");
  EXPECT_EQ(Sparkline(Values{1, 2}, -3), "");
}

TEST(Sparkline, ABucketShowsItsLargestValueSoThatASpikeStays) {
  Values values(100, 1.0);
  values[41] = 9;
  EXPECT_EQ(Sparkline(values, 10), "▁▁▁▁█▁▁▁▁▁");
}

TEST(Sparkline, NotFiniteAndMissingAreSeen) {
  EXPECT_EQ(Sparkline(Values{0, NAN, INFINITY, std::nullopt, 7}, 5), "▁!! █");
  EXPECT_EQ(Sparkline(Values{std::nullopt, NAN}, 5), " !");
}

TEST(Sparkline, HugeValuesDoNotOverflow) { EXPECT_EQ(Sparkline(Values{-1.7e308, 0.0, 1.7e308}, 3), "▁▅█"); }

TEST(HeatColour, EndsAndBeyond) {
  EXPECT_EQ(HeatColour(0), 17);
  EXPECT_EQ(HeatColour(1), 227);
  EXPECT_EQ(HeatColour(-4), HeatColour(0));
  EXPECT_EQ(HeatColour(40), HeatColour(1));
  EXPECT_EQ(HeatColour(NAN), 201);
}

TEST(HeatMap, NumbersWithoutColour) {
  const std::vector<HeatRow> rows = {{"0", {1.0, NAN}}, {"1", {std::nullopt, 2.5, 12.0}}};
  EXPECT_EQ(HeatMap(rows, Style{}),
            "layer  h0   h1  h2\n"
            "0       1  NaN\n"
            "1       -  2.5  12\n");
}

TEST(HeatMap, BlocksAndLegendWithColour) {
  const std::vector<HeatRow> rows = {{"0", {1.0, NAN}}, {"10", {std::nullopt, 3.0}}};
  const std::string map = HeatMap(rows, Style{.colour = true, .terminal = true});
  EXPECT_THAT(map, HasSubstr("0  \x1b[48;5;17m  \x1b[0m\x1b[48;5;201m!!\x1b[0m\n"));
  EXPECT_THAT(map, HasSubstr("10  .\x1b[48;5;227m  \x1b[0m\n"));
  EXPECT_THAT(map, HasSubstr("   1 \x1b[48;5;17m \x1b[0m"));
  EXPECT_THAT(map, HasSubstr("\x1b[0m 3\n"));
}

TEST(HeatMap, NothingFiniteHasNoLegend) {
  const std::vector<HeatRow> rows = {{"0", {NAN, std::nullopt}}};
  EXPECT_EQ(HeatMap(rows, Style{.colour = true}), "0 \x1b[48;5;201m!!\x1b[0m .\n");
}

TEST(Table, AlignsByDisplayWidthAndTrims) {
  Table table({{"run"}, {"step", Align::kRight}, {"note"}});
  table.AddRow({"a", "5"});
  table.AddRow({"schön", "1200", "x", "dropped"});
  EXPECT_EQ(table.Render(Style{}),
            "run    step  note\n"
            "a         5\n"
            "schön  1200  x\n");
}

TEST(Table, ColourDoesNotShiftColumns) {
  const Style style{.colour = true};
  Table table({{"run"}, {"state"}, {"step", Align::kRight}});
  table.AddRow({"a", style(Paint::kRed, "bad"), "5"});
  EXPECT_THAT(table.Render(style), HasSubstr("a    \x1b[1;31mbad\x1b[0m       5\n"));
}

}  // namespace
}  // namespace foreshock::cli
