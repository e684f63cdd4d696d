// Good and bad files in pairs (tests/data): a bad one says in its first lines what is wrong with it and
// where.
#include "foreshock/server/rules/rules_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "foreshock/base/catalogue.h"

namespace foreshock::rules {
namespace {

using detect::Reduction;

std::string Read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::filesystem::path Data(const std::string& name) {
  return std::filesystem::path(FORESHOCK_RULES_DATA) / name;
}

std::vector<std::filesystem::path> Files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(Data(folder))) files.push_back(entry.path());
  return files;
}

// "LINE:COLUMN MESSAGE" of the lines "# expect ...".
std::vector<std::string> Expectations(const std::string& text) {
  constexpr std::string_view kMark = "# expect ";
  std::vector<std::string> expected;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kMark)) expected.push_back(line.substr(kMark.size()));
  }
  return expected;
}

TEST(RulesFile, GoodFilesHaveNoErrors) {
  for (const auto& path : Files("good")) {
    const ParsedRules parsed = ParseUserRules(Read(path));
    for (const RuleError& error : parsed.errors) ADD_FAILURE() << ToText(path, error);
  }
}

TEST(RulesFile, BadFilesHaveExactlyTheErrorsThatTheyTell) {
  for (const auto& path : Files("bad")) {
    const std::string text = Read(path);
    const ParsedRules parsed = ParseUserRules(text);
    const auto expected = Expectations(text);
    ASSERT_FALSE(expected.empty()) << path;
    std::string all;
    for (const RuleError& error : parsed.errors) all += ToText(path.filename(), error) + "\n";
    ASSERT_EQ(parsed.errors.size(), expected.size()) << all;
    for (size_t i = 0; i < expected.size(); ++i) {
      const RuleError& error = parsed.errors[i];
      const std::string found =
          std::to_string(error.line) + ":" + std::to_string(error.column) + " " + error.message;
      EXPECT_TRUE(found.starts_with(expected[i]))
          << path << "\n  found    " << found << "\n  expected " << expected[i];
    }
  }
}

TEST(RulesFile, EveryKeyArrives) {
  const ParsedRules parsed = ParseUserRules(Read(Data("good/full.yaml")));
  ASSERT_EQ(parsed.rules.size(), 1u);
  const detect::UserRule& rule = parsed.rules[0];
  EXPECT_EQ(rule.name, "late_layers_saturate");
  EXPECT_EQ(rule.signal, kSaturatedRowFraction);
  EXPECT_EQ(rule.run, "gpt-*");
  EXPECT_EQ(rule.layers, (std::vector<detect::IndexRange>{{0, 3}, {7, 7}}));
  EXPECT_EQ(rule.heads, (std::vector<detect::IndexRange>{{0, 1}}));
  EXPECT_EQ(rule.over_heads, Reduction{Reduction::Kind::kMax});
  EXPECT_EQ(rule.over_layers, (Reduction{Reduction::Kind::kQuantile, 0.75}));
  EXPECT_EQ(rule.over_all, std::nullopt);
  EXPECT_EQ(rule.function, detect::WindowFunction::kRatioToMedian);
  EXPECT_EQ(rule.window, (detect::Span{48, 0}));
  EXPECT_EQ(rule.comparison, detect::Comparison::kGreaterEqual);
  EXPECT_EQ(rule.threshold, 3.5);
  EXPECT_EQ(rule.hold, (detect::Span{3, 0}));
  EXPECT_EQ(rule.keep_firing_samples, 5);
  EXPECT_EQ(rule.severity, detect::Severity::kCritical);
  EXPECT_EQ(rule.labels.at("Tier"), "1");
  EXPECT_EQ(rule.annotations.size(), 1u);
  EXPECT_EQ(rule.advice, "Look at it.");
  EXPECT_EQ(rule.action, "stop");
}

TEST(RulesFile, LoadingIsAllOrNothing) {
  const auto good = LoadUserRules(Data("good/scalar.yaml"));
  ASSERT_TRUE(good.ok()) << good.status().ToString();
  EXPECT_EQ((*good)->size(), 2u);
  const auto bad = LoadUserRules(Data("bad/scalar.yaml"));
  EXPECT_EQ(bad.status().code(), Code::kInvalidArgument);
  EXPECT_NE(bad.status().message().find("scalar.yaml:12:12: heads"), std::string::npos)
      << bad.status().message();
  EXPECT_NE(bad.status().message().find("(and 6 more)"), std::string::npos);
  EXPECT_FALSE(LoadUserRules("/nonexistent/rules.yaml").ok());
}

TEST(RulesFile, EmptyHugeAndDeepTextsAreErrors) {
  EXPECT_EQ(ParseUserRules("").errors.size(), 1u);
  EXPECT_EQ(ParseUserRules("[1, 2]").errors.size(), 1u);
  EXPECT_EQ(ParseUserRules(std::string(2 << 20, '#')).errors.size(), 1u);
  EXPECT_FALSE(ParseUserRules(std::string(100'000, '[')).errors.empty());
  std::string many = "rules:\n";
  for (int i = 0; i < 300; ++i)
    many += "  - {name: r" + std::to_string(i) + ", signal: loss, condition: '> 1'}\n";
  EXPECT_EQ(ParseUserRules(many).errors.size(), 1u);
}

}  // namespace
}  // namespace foreshock::rules
