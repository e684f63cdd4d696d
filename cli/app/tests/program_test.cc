#include "foreshock/cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace foreshock::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Ran {
  int exit = 0;
  std::string out, err;
};

Ran RunWords(std::vector<const char*> words) {
  words.insert(words.begin(), "foreshock");
  std::ostringstream out, err;
  Context context{out, err, Style{}, "."};
  const int exit = RunProgram(static_cast<int>(words.size()), words.data(), context);
  return {exit, out.str(), err.str()};
}

TEST(Program, EveryCommandHasHelpWithExamples) {
  for (const auto& command : AllCommands()) {
    const std::string name = command->Spec().name;
    const Ran ran = RunWords({name.c_str(), "--help"});
    EXPECT_EQ(ran.exit, kExitOk) << name;
    EXPECT_THAT(ran.out, HasSubstr("foreshock " + name)) << name << " shows no example";
    EXPECT_THAT(ran.out, HasSubstr("--json")) << name;
    EXPECT_THAT(ran.err, IsEmpty()) << name;
  }
}

TEST(Program, HelpStatesExitStatuses) {
  const Ran ran = RunWords({"--help"});
  EXPECT_EQ(ran.exit, kExitOk);
  EXPECT_THAT(ran.out, HasSubstr("Exit status"));
}

TEST(Program, NoServerIsExitThreeAndNamesTheAddress) {
  // Port 1 of the loopback is not listened on.
  const Ran ran = RunWords({"runs", "--server", "127.0.0.1:1", "--timeout-ms", "5000"});
  EXPECT_EQ(ran.exit, kExitUnreachable) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(ran.out, IsEmpty());
}

struct BadCase {
  std::vector<const char*> words;
  const char* says;
};

class BadUsage : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadUsage, ExitsWithTwoNamingFieldAndLimit) {
  const Ran ran = RunWords(GetParam().words);
  EXPECT_EQ(ran.exit, kExitUsage) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr(GetParam().says));
  EXPECT_THAT(ran.out, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadUsage,
    ::testing::Values(BadCase{{"runs", "--server", "nonsense"}, "server: 'nonsense': no port"},
                      BadCase{{"runs", "--server", "host:99999"}, "1 to 65535"},
                      BadCase{{"runs", "--server", ":80"}, "no host"},
                      BadCase{{"runs", "--timeout-ms", "0"}, "timeout-ms: 0: expected 1 to 3600000"},
                      BadCase{{"series", "r", "sigma"}, "signal: 'sigma': unknown"},
                      BadCase{{"series", "r", "loss", "--layer", "-1"}, "layer: -1: expected 0 to 4095"},
                      BadCase{{"series", "r", "loss", "--from", "9", "--to", "3"}, "to: 3: before --from 9"},
                      BadCase{{"heads", "r", "qk_sigma1", "--step", "-5"}, "step: -5"},
                      BadCase{{"act", "r", "reboot"}, "kind: 'reboot': expected enable_qk_norm"},
                      BadCase{{"act", "r", "qk_clip"}, "--value"},
                      BadCase{{"silence", "hush"}, "what: 'hush': expected create, list or expire"},
                      BadCase{{"silence", "create", "--run", "r"}, "for: missing"},
                      BadCase{{"silence", "create", "--run", "r", "--for", "2x"},
                              "for: '2x': expected a length"},
                      BadCase{{"silence", "create", "--run", "r", "--for", "nan"}, "for: 'nan'"},
                      BadCase{{"silence", "create", "--run", "r", "--severity", "bad", "--for", "1h"},
                              "severity: 'bad': expected info, warning or critical"},
                      BadCase{{"silence", "expire"}, "id: missing"},
                      BadCase{{"acknowledge", "r", "--for", "-1h"}, "for: '-1h'"},
                      BadCase{{"audit", "--limit", "0"}, "limit: 0: expected 1 to 10000"},
                      BadCase{{"runs", "--label", "team"}, "label: 'team': expected NAME=VALUE"},
                      BadCase{{"act", "r", "stop", "--wait", "-1"}, "wait"},
                      BadCase{{"summary", "a", "b", "--expect", "healthy"}, "given 1 times for 2 runs"},
                      BadCase{{"summary", "a", "--expect", "fine"}, "expect: 'fine'"},
                      BadCase{{"summary", "a", "--every", "0"}, "every: 0"},
                      BadCase{{"watch", "r", "--every", "0"}, "every: 0"},
                      BadCase{{"replay", "x", "--disable", "no_such_rule"}, "no such rule"},
                      BadCase{{"replay", "--json", "/no/such/file"}, "/no/such/file"}));

TEST(Program, SignalsThatResembleAreNamed) {
  EXPECT_THAT(RunWords({"heads", "r", "sigma1"}).err, HasSubstr("qk_sigma1"));
}

TEST(Program, CatalogueNeedsNoServer) {
  EXPECT_THAT(RunWords({"catalogue"}).out, HasSubstr("qk_sigma1"));
  EXPECT_THAT(RunWords({"catalogue", "--json"}).out, HasSubstr("\"name\":\"qk_sigma1\""));
}

TEST(Program, AModelNeedsAPythonAndNoServer) {
  const Ran ran =
      RunWords({"doctor", "--model", "gpt2", "--python", "/no/such/python", "--server", "127.0.0.1:1"});
  EXPECT_EQ(ran.exit, kExitUnreachable);
  EXPECT_THAT(ran.err, HasSubstr("python: '/no/such/python': No such file"));
  EXPECT_THAT(ran.err, HasSubstr("FORESHOCK_PYTHON"));
  EXPECT_THAT(ran.err, Not(HasSubstr("127.0.0.1:1")));
}

}  // namespace
}  // namespace foreshock::cli
