#include "foreshock/cli/rules.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace foreshock::cli {
namespace {

class RulesCommandTest : public testing::Test {
 protected:
  ~RulesCommandTest() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  static std::string Folder() {
    std::string folder = testing::TempDir() + "foreshock_rules_" +
                         testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder);
    return folder;
  }

  const std::string folder_ = Folder();
  const std::string good_ =
      File("good.yaml", "rules:\n  - {name: high_loss, signal: loss, condition: '> 5'}\n");
  const std::string bad_ = File("bad.yaml", "rules:\n  - {name: high_loss, signal: los, condition: '> 5'}\n");
  std::ostringstream out_, err_;
};

TEST_F(RulesCommandTest, CheckPrintsEveryErrorWithItsPlace) {
  EXPECT_EQ(RunRulesCheck({good_}, false, out_, err_), 0);
  EXPECT_EQ(out_.str(), good_ + ": 1 rule, no errors\n");
  EXPECT_EQ(RunRulesCheck({good_, bad_}, false, out_, err_), 2);
  EXPECT_NE(err_.str().find("bad.yaml:2:31: signal: 'los': unknown (did you mean loss?)"), std::string::npos)
      << err_.str();
}

TEST_F(RulesCommandTest, CheckAsJson) {
  EXPECT_EQ(RunRulesCheck({bad_}, true, out_, err_), 2);
  EXPECT_NE(out_.str().find("\"rules\":[],\"errors\":[{\"line\":2,\"column\":31,\"message\":\"signal"),
            std::string::npos)
      << out_.str();
}

TEST_F(RulesCommandTest, CheckOfAMissingFile) {
  EXPECT_EQ(RunRulesCheck({"/nonexistent.yaml"}, false, out_, err_), 2);
  EXPECT_NE(err_.str().find("/nonexistent.yaml"), std::string::npos);
}

TEST_F(RulesCommandTest, TestRunsTheRulesThatTheFileNames) {
  const std::string scenario =
      File("s.yaml",
           "rules: good.yaml\nscenarios:\n  - name: rises\n    series: {loss: 1x5 6x5}\n"
           "    expect: [{rule: high_loss, severity: warning, fires: 5}]\n");
  EXPECT_EQ(RunRulesTest({.files = {scenario}, .rules_path = ""}, out_, err_), 0) << out_.str() << err_.str();
  EXPECT_NE(out_.str().find("ok      " + scenario + ":3: rises (10 samples"), std::string::npos)
      << out_.str();
  EXPECT_NE(out_.str().find("1 of 1 scenarios passed"), std::string::npos);
}

TEST_F(RulesCommandTest, FailedTestNamesStepAndWhatCame) {
  const std::string scenario = File("s.yaml",
                                    "scenarios:\n  - name: rises\n    series: {loss: 1x5 6x5}\n"
                                    "    expect: [{rule: high_loss, fires: 7}]\n");
  EXPECT_EQ(RunRulesTest({.files = {scenario}, .rules_path = good_}, out_, err_), 1) << err_.str();
  EXPECT_NE(out_.str().find(
                "s.yaml:4:14: expected high_loss to fire at step 7; it fires warning high_loss at step 5"),
            std::string::npos)
      << out_.str();
  out_.str("");
  EXPECT_EQ(RunRulesTest({.files = {scenario}, .rules_path = good_, .json = true}, out_, err_), 1);
  EXPECT_NE(out_.str().find("\"passed\":false,\"failures\":[{\"line\":4,\"column\":14"), std::string::npos)
      << out_.str();
}

TEST_F(RulesCommandTest, BadFilesAreNoFailedTests) {
  const std::string scenario =
      File("s.yaml", "scenarios:\n  - {name: a, series: {loss: 1}, expect: [{rule: x}]}\n");
  EXPECT_EQ(RunRulesTest({.files = {scenario}, .rules_path = ""}, out_, err_), 2);
  EXPECT_NE(err_.str().find("s.yaml:2:"), std::string::npos) << err_.str();
  EXPECT_EQ(RunRulesTest({.files = {scenario}, .rules_path = bad_}, out_, err_), 2);
  EXPECT_EQ(RunRulesTest({.files = {"/nonexistent.yaml"}, .rules_path = ""}, out_, err_), 2);
}

}  // namespace
}  // namespace foreshock::cli
