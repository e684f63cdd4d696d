#include "foreshock/cli/style.h"

#include <gtest/gtest.h>

namespace foreshock::cli {
namespace {

TEST(StyleFor, ColourOnlyOnATerminalThatWantsIt) {
  EXPECT_TRUE(StyleFor(true, nullptr, "xterm", 80).colour);
  EXPECT_TRUE(StyleFor(true, "", "xterm", 80).colour) << "an empty NO_COLOR counts as unset";
  EXPECT_FALSE(StyleFor(false, nullptr, "xterm", 80).colour);
  EXPECT_FALSE(StyleFor(true, "1", "xterm", 80).colour);
  EXPECT_FALSE(StyleFor(true, nullptr, "dumb", 80).colour);
  EXPECT_FALSE(StyleFor(true, nullptr, nullptr, 80).colour);
}

TEST(StyleFor, KeepsItsWidthWhenTheTerminalDoesNotSay) {
  EXPECT_EQ(StyleFor(true, nullptr, "xterm", 0).columns, Style().columns);
  EXPECT_EQ(StyleFor(true, nullptr, "xterm", 72).columns, 72);
}

TEST(Style, PaintsOnlyWhereColourIsAllowed) {
  Style style;
  EXPECT_EQ(style(Paint::kRed, "critical"), "critical");
  EXPECT_EQ(style.Block(17), "  ");
  style.colour = true;
  EXPECT_EQ(style(Paint::kRed, "critical"), "\x1b[1;31mcritical\x1b[0m");
  EXPECT_EQ(style(Paint::kPlain, "x"), "x");
  EXPECT_EQ(style.Block(17), "\x1b[48;5;17m  \x1b[0m");
}

TEST(Printable, TakesEscapesOutOfForeignText) {
  EXPECT_EQ(Printable("run\x1b]0;title\x07"), "run?]0;title?");
  EXPECT_EQ(Printable("a\nb\tc\x7f"), "a?b?c?");
  EXPECT_EQ(Printable("x\xC2\x9B"
                      "31m"),
            "x?31m")
      << "U+009B starts an escape on some terminals";
}

TEST(Printable, KeepsUtf8AndMarksWhatIsNot) {
  EXPECT_EQ(Printable("schön ▁ 😀"), "schön ▁ 😀");
  EXPECT_EQ(Printable("\xff\xfe"), "??");
  EXPECT_EQ(Printable("\xC0\xAF"), "??") << "overlong";
  EXPECT_EQ(Printable("\xED\xA0\x80"), "???") << "surrogate";
  EXPECT_EQ(Printable("\xE2\x96"), "??") << "cut short";
}

TEST(DisplayWidth, CountsCodePointsAndNoEscapes) {
  EXPECT_EQ(DisplayWidth(""), 0u);
  EXPECT_EQ(DisplayWidth("▁▂▃"), 3u);
  EXPECT_EQ(DisplayWidth("\x1b[1;31mab\x1b[0m"), 2u);
}

}  // namespace
}  // namespace foreshock::cli
