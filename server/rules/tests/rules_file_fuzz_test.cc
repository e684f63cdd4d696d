// Altered rule files: whatever the bytes, there are rules or errors with a place inside the text, and no
// crash.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "foreshock/server/rules/rules_file.h"

namespace foreshock::rules {
namespace {

constexpr uint64_t kSeed = 20261129;
constexpr int kRounds = 1500;

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const char* folder : {"/good", "/bad"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(FORESHOCK_RULES_DATA) + folder)) {
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      seeds.push_back(text.str());
    }
  }
  return seeds;
}

std::string Alter(std::string text, std::mt19937_64* random) {
  static constexpr std::string_view kPieces[] = {"\n",  "- ", ": ", "{",     "}",      "[",    "]",
                                                 "&a ", "*a", "\"", "'",     "!!int ", "\xff", "\t",
                                                 "|",   "? ", "~",  "1e999", "rules",  "#"};
  for (int i = 0; i < 1 + static_cast<int>((*random)() % 6); ++i) {
    const size_t at = (*random)() % (text.size() + 1);
    switch ((*random)() % 3) {
      case 0:
        text.insert(at, kPieces[(*random)() % std::size(kPieces)]);
        break;
      case 1:
        text.erase(at, (*random)() % 12);
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>((*random)());
    }
  }
  return text;
}

TEST(RulesFileFuzz, AlteredFilesNeverCrash) {
  std::mt19937_64 random(kSeed);
  const auto seeds = Seeds();
  ASSERT_FALSE(seeds.empty());
  size_t refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string text = Alter(seeds[random() % seeds.size()], &random);
    const ParsedRules parsed = ParseUserRules(text);
    const auto lines =
        1 + std::count(text.begin(), text.end(), '\n') + std::count(text.begin(), text.end(), '\r');
    for (const RuleError& error : parsed.errors) {
      EXPECT_TRUE(error.line >= 1 && error.line <= lines + 1 && error.column >= 1)
          << "seed " << kSeed << " round " << round << ": " << error.line << ":" << error.column << "\n"
          << text;
    }
    refused += parsed.errors.empty() ? 0 : 1;
  }
  // The canary: alterations that are never noticed would mean that nothing is checked.
  EXPECT_GT(refused, static_cast<size_t>(kRounds) / 2);
}

}  // namespace
}  // namespace foreshock::rules
