#include "foreshock/cli/tune.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "judge.h"

namespace foreshock::cli {
namespace {

using alert::AlertEvent;

AlertEvent Critical(int64_t step, const std::string& rule, bool firing = true) {
  AlertEvent event;
  event.kind = firing ? AlertEvent::Kind::kFiring : AlertEvent::Kind::kResolved;
  event.step = step;
  event.alert.id = rule;
  event.alert.rule = rule;
  event.alert.severity = detect::Severity::kCritical;
  event.alert.layer = 1;
  event.alert.head = 2;
  return event;
}

LabelledRun Collapse(std::vector<AlertEvent> events) {
  LabelledRun run;
  run.truth.label = Truth::Label::kCollapse;
  run.truth.onset = 100;
  run.truth.collapse = 200;
  run.truth.head = std::array<int, 2>{1, 2};
  run.events = std::move(events);
  return run;
}

TEST(Judge, OnlyWhatLastsUntilTheCollapseWarnsOfIt) {
  EXPECT_EQ(RuleSpoke(Collapse({Critical(120, "a")}), "").step, 120);
  EXPECT_EQ(RuleSpoke(Collapse({Critical(120, "a"), Critical(130, "a", false)}), "").step, std::nullopt);
  EXPECT_EQ(
      RuleSpoke(Collapse({Critical(120, "a"), Critical(130, "a", false), Critical(140, "a")}), "a").step,
      140);
  EXPECT_EQ(RuleSpoke(Collapse({Critical(120, "a"), Critical(110, "b")}), "a").step, 120);
  EXPECT_EQ(RuleSpoke(Collapse({Critical(200, "a")}), "").step, std::nullopt);
}

TEST(Judge, BeforeTheOnsetIsAFalseAlarm) {
  const Spoke spoke = RuleSpoke(Collapse({Critical(90, "a")}), "");
  EXPECT_TRUE(spoke.false_alarm);
  EXPECT_EQ(spoke.step, std::nullopt);
}

TEST(Judge, LeadIsAShareOfOnsetToCollapse) {
  Verdicts verdicts;
  const LabelledRun run = Collapse({Critical(125, "a")});
  Add(run, RuleSpoke(run, ""), &verdicts);
  Add(Collapse({}), {}, &verdicts);
  EXPECT_EQ(verdicts.leads, (std::vector<double>{0.75, 0}));
  EXPECT_EQ(verdicts.caught, 1);
  EXPECT_EQ(verdicts.chances, 2);
  EXPECT_EQ(verdicts.heads_named, 1);
}

TEST(Judge, AThresholdIsChosenWithoutTheRunThatItJudges) {
  std::vector<LabelledRun> runs(3);
  runs[0].scores = {{"s", 5, {{10, 1}, {20, 4}}}};
  runs[1].scores = {{"s", 5, {{10, 2}, {20, 2}}}};
  runs[2] = Collapse({});
  runs[2].scores = {{"s", 5, {{50, 3}, {150, 4.1}, {160, 9}}}};
  EXPECT_DOUBLE_EQ(ChosenThreshold(runs, 0, 0), 3 * kMargin);  // before its onset the third was well, too
  EXPECT_DOUBLE_EQ(ChosenThreshold(runs, 0, 2), 4 * kMargin);
  EXPECT_DOUBLE_EQ(ChosenThreshold(runs, 0, SIZE_MAX), 4 * kMargin);
  const auto all = LeaveOneOut(runs);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].false_alarms, 1);  // the first run, by the thresholds of the other two
  EXPECT_EQ(all[0].leads, std::vector<double>{0.4});
}

class TuneCommandTest : public testing::Test {
 protected:
  static std::string Folder() {
    std::string folder = testing::TempDir() + "foreshock_tune_" +
                         testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder);
    return folder;
  }
  ~TuneCommandTest() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  // A loss that falls, and at step `nan_at` is NaN for good.
  std::string Recording(const std::string& run, int64_t nan_at) {
    std::string text = "{\"run\":\"" + run + "\",\"layers\":1,\"heads\":2}\n";
    for (int64_t step = 0; step < 300; step += 10) {
      text += "{\"step\":" + std::to_string(step) + ",\"loss\":" +
              (step >= nan_at ? "null" : std::to_string(2 + std::exp(-static_cast<double>(step) / 50))) +
              "}\n";
    }
    return File(run + ".jsonl", text);
  }
  int Run(TuneOptions options) { return RunTune(options, Style(), out_, err_); }

  const std::string folder_ = Folder();
  std::ostringstream out_, err_;
};

TEST_F(TuneCommandTest, PrintsLeadAndFalseAlarmsOfEveryRule) {
  TuneOptions options;
  options.recordings = {Recording("a", 200), Recording("b", 1000), Recording("c", 250)};
  options.labels_path =
      File("labels.json",
           "{\"a\":{\"label\":\"collapse\",\"collapse_step\":300,\"fault_onset_step\":100},"
           "\"b\":{\"label\":\"healthy\"},\"c\":{\"label\":\"spike\",\"collapse_step\":null}}");
  options.json = true;
  ASSERT_EQ(Run(options), 0) << err_.str();
  const std::string json = out_.str();
  EXPECT_NE(
      json.find("\"rules\":[{\"detector\":\"any rule\",\"collapses\":1,\"caught\":1,\"median_lead\":0.5,"
                "\"least_lead\":0.5,\"false_alarms\":1,\"chances\":3"),
      std::string::npos)
      << json;
  EXPECT_NE(json.find("\"false_runs\":[\"c\"]"), std::string::npos);
  EXPECT_NE(json.find("{\"detector\":\"non_finite\""), std::string::npos);
  EXPECT_NE(json.find("{\"detector\":\"largest logit\",\"threshold\":[100,100]"), std::string::npos)
      << json;
  out_.str("");
  options.json = false;
  options.runs = true;
  ASSERT_EQ(Run(options), 0);
  EXPECT_NE(out_.str().find("Suggested thresholds"), std::string::npos) << out_.str();
}

TEST_F(TuneCommandTest, BadLabelsAndMissingOnesAreErrors) {
  TuneOptions options;
  options.recordings = {Recording("a", 200)};
  const std::pair<const char*, const char*> cases[] = {
      {"{\n,", "labels.json: line 2: not valid JSON"},
      {"[]", "line 1: expected an object"},
      {"{\"a\":{}}", "run a: label: missing"},
      {"{\"a\":{\"label\":\"fine\"}}", "run a: label: 'fine': expected healthy"},
      {"{\"a\":{\"label\":\"collapse\"}}", "run a: collapse_step: missing"},
      {"{\"a\":{\"label\":\"collapse\",\"collapse_step\":-1}}", "run a: collapse_step: not a step"},
      {"{\"a\":{\"label\":\"failed\",\"fault_head\":[1]}}", "run a: fault_head: expected [layer, head]"},
      {"{\"b\":{\"label\":\"healthy\"}}", "the labels have no run a"},
  };
  for (const auto& [labels, expected] : cases) {
    err_.str("");
    options.labels_path = File("labels.json", labels);
    EXPECT_EQ(Run(options), 2) << labels;
    EXPECT_NE(err_.str().find(expected), std::string::npos) << err_.str();
  }
  options.labels_path = "/nonexistent.json";
  EXPECT_EQ(Run(options), 2);
}

}  // namespace
}  // namespace foreshock::cli
