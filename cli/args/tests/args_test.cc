#include "foreshock/cli/args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace foreshock::cli {
namespace {

using ::testing::HasSubstr;

struct Parsed {
  ParseOutcome outcome;
  std::string run, server = "127.0.0.1:7600", output;
  std::optional<int64_t> from;
  std::optional<double> value;
  std::vector<int64_t> layers;
  std::vector<std::string> runs;
  bool json = false;
};

Parsed ParseWords(std::vector<const char*> words) {
  Parsed p;
  ProgramSpec program;
  program.name = "foreshock";
  program.description = "Warns early.";
  program.version = "1.2.3";
  program.commands.push_back({"show", "One run", "Examples:\n  foreshock show gpt", [&](ArgSink& sink) {
                                sink.Positional("RUN", &p.run, "the run's name");
                                sink.Option("--from", &p.from, "first step");
                                sink.Option("--value", &p.value, "a value");
                                sink.Option("--layer", &p.layers, "a layer");
                                sink.Option("--server", &p.server, "address", "FORESHOCK_TEST_SERVER");
                                sink.Flag("--json", &p.json, "as JSON");
                              }});
  program.commands.push_back({"report", "A page", "", [&](ArgSink& sink) {
                                sink.Positionals("RUN", &p.runs, "runs");
                                sink.Option("-o,--output", &p.output, "file");
                              }});
  words.insert(words.begin(), "foreshock");
  p.outcome = Parse(program, static_cast<int>(words.size()), words.data());
  return p;
}

TEST(Parse, FillsInWhatTheCommandDeclared) {
  const Parsed p =
      ParseWords({"show", "gpt", "--from", "10", "--value=-2.5", "--layer", "1", "--layer", "3", "--json"});
  ASSERT_EQ(p.outcome.command, 0u) << p.outcome.text;
  EXPECT_EQ(p.run, "gpt");
  EXPECT_EQ(p.from, 10);
  EXPECT_EQ(p.value, -2.5);
  EXPECT_THAT(p.layers, ::testing::ElementsAre(1, 3));
  EXPECT_TRUE(p.json);
  EXPECT_EQ(p.server, "127.0.0.1:7600");
}

TEST(Parse, OptionsMayStandBeforePositionals) {
  const Parsed p = ParseWords({"report", "-o", "out.html", "a", "b"});
  ASSERT_EQ(p.outcome.command, 1u) << p.outcome.text;
  EXPECT_EQ(p.output, "out.html");
  EXPECT_THAT(p.runs, ::testing::ElementsAre("a", "b"));
}

TEST(Parse, EnvironmentStandsInAndTheOptionWins) {
  ASSERT_EQ(setenv("FORESHOCK_TEST_SERVER", "host:1", 1), 0);
  EXPECT_EQ(ParseWords({"show", "gpt"}).server, "host:1");
  EXPECT_EQ(ParseWords({"show", "gpt", "--server", "other:2"}).server, "other:2");
  ASSERT_EQ(unsetenv("FORESHOCK_TEST_SERVER"), 0);
}

TEST(Parse, HelpShowsArgumentsExamplesAndDefaults) {
  const Parsed p = ParseWords({"show", "--help"});
  EXPECT_FALSE(p.outcome.command);
  EXPECT_EQ(p.outcome.exit_code, 0);
  EXPECT_THAT(p.outcome.text, HasSubstr("the run's name"));
  EXPECT_THAT(p.outcome.text, HasSubstr("127.0.0.1:7600"));
  EXPECT_THAT(p.outcome.text, HasSubstr("foreshock show gpt"));
  EXPECT_THAT(ParseWords({"--help"}).outcome.text, HasSubstr("report"));
}

TEST(Parse, VersionIsAnswered) {
  const Parsed p = ParseWords({"--version"});
  EXPECT_EQ(p.outcome.exit_code, 0);
  EXPECT_EQ(p.outcome.text, "foreshock 1.2.3\n");
}

class BadInput : public ::testing::TestWithParam<std::pair<std::vector<const char*>, const char*>> {};

TEST_P(BadInput, ExitsWithTwoAndNamesTheCulprit) {
  const Parsed p = ParseWords(GetParam().first);
  EXPECT_FALSE(p.outcome.command);
  EXPECT_EQ(p.outcome.exit_code, 2);
  EXPECT_THAT(p.outcome.text, HasSubstr(GetParam().second));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadInput,
    ::testing::Values(std::pair{std::vector<const char*>{}, "show"},
                      std::pair{std::vector<const char*>{"shw"}, "shw"},
                      std::pair{std::vector<const char*>{"show"}, "RUN"},
                      std::pair{std::vector<const char*>{"show", "a", "b"}, "b"},
                      std::pair{std::vector<const char*>{"show", "a", "--from", "x"}, "--from"},
                      std::pair{std::vector<const char*>{"show", "a", "--from", "99999999999999999999"},
                                "--from"},
                      std::pair{std::vector<const char*>{"show", "a", "--value", "1e"}, "--value"},
                      std::pair{std::vector<const char*>{"show", "a", "--nope"}, "--nope"},
                      std::pair{std::vector<const char*>{"report"}, "RUN"}));

}  // namespace
}  // namespace foreshock::cli
