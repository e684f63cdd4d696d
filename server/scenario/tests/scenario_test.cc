// Scenario files: those of the project all pass, and each kind of expectation fails where it should.
#include "foreshock/server/scenario/scenario.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace foreshock::scenario {
namespace {

std::string FailuresOf(const Report& report) {
  std::string text;
  for (const auto& error : report.errors) text += rules::ToText("file", error) + "\n";
  for (const Outcome& outcome : report.outcomes) {
    for (const auto& failure : outcome.failures)
      text += outcome.name + ": " + rules::ToText("file", failure) + "\n";
  }
  return text;
}

// A loss that is NaN from step 30 on, with one expectation.
std::string Expecting(const std::string& expectation) {
  return "every: 10\nscenarios:\n  - name: s\n    series: {loss: \"2x3 NaN 2x6\"}\n    events: [{step: 20, "
         "kind: "
         "checkpoint}]\n    expect:\n      - " +
         expectation + "\n";
}

TEST(Scenario, FilesOfTheProjectPass) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FORESHOCK_SCENARIOS)) {
    if (entry.path().extension() != ".yaml" || entry.path().stem().string().ends_with("_rules")) continue;
    ++files;
    const auto report = RunScenarioFile(entry.path(), nullptr);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(FailuresOf(*report), "") << entry.path();
    EXPECT_FALSE(report->outcomes.empty());
  }
  EXPECT_GE(files, 17u);
}

TEST(Scenario, WhatComesAsExpectedPasses) {
  for (const char* good :
       {"{rule: non_finite}", "{rule: non_finite, severity: critical, fires: 30, resolves: 60}",
        "{rule: non_finite, fires: 20..40, at_end: resolved, layer: -1, last_checkpoint: 20, first_evidence: "
        "30}",
        "{rule: loss_spike, never: true}", "{rule: non_finite, severity: warning, never: true}"}) {
    EXPECT_EQ(FailuresOf(RunScenarios(Expecting(good), nullptr)), "") << good;
  }
}

TEST(Scenario, WhatDoesNotFailsAndNamesStepAndPlace) {
  for (const char* bad : {"{rule: loss_spike}", "{rule: non_finite, severity: warning}",
                          "{rule: non_finite, fires: 31..40}", "{rule: non_finite, resolves: 61}",
                          "{rule: non_finite, at_end: firing}", "{rule: non_finite, layer: 0}",
                          "{rule: non_finite, head: 0}", "{rule: non_finite, last_checkpoint: 10}",
                          "{rule: non_finite, first_evidence: 31}", "{rule: non_finite, never: true}"}) {
    const Report report = RunScenarios(Expecting(bad), nullptr);
    ASSERT_EQ(report.outcomes.size(), 1u) << bad << FailuresOf(report);
    ASSERT_EQ(report.outcomes[0].failures.size(), 1u) << bad;
    EXPECT_EQ(report.outcomes[0].failures[0].line, 7);
    EXPECT_EQ(report.outcomes[0].failures[0].column, 9);
  }
  const auto failure =
      RunScenarios(Expecting("{rule: non_finite, fires: 31..40}"), nullptr).outcomes[0].failures[0];
  EXPECT_EQ(failure.message,
            "expected non_finite to fire at steps 31 to 40; it fires critical non_finite at step 30; "
            "resolves critical non_finite at step 60");
}

TEST(Scenario, NothingElseMeansNothingElse) {
  const std::string text = Expecting("{rule: loss_spike, never: true}") + "    nothing_else: true\n";
  const Report report = RunScenarios(text, nullptr);
  ASSERT_EQ(report.outcomes.size(), 1u) << FailuresOf(report);
  ASSERT_EQ(report.outcomes[0].failures.size(), 1u);
  EXPECT_NE(report.outcomes[0].failures[0].message.find("non_finite at step 30"), std::string::npos);
}

TEST(Scenario, SilenceIsMeasuredAfterItsStep) {
  const std::string text =
      "scenarios:\n  - name: s\n    series: {loss: \"2x400\"}\n    events: [{step: 100, silent_seconds: "
      "400}]\n"
      "    expect:\n      - {rule: stalled, severity: warning, fires: 100, resolves: 101}\n";
  EXPECT_EQ(FailuresOf(RunScenarios(text, nullptr)), "");
}

TEST(Scenario, MistakesAreErrorsWithTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "file:1:1: the file: expected a map"},
      {"scenarios: []", "file:1:12: scenarios: expected a list"},
      {"scenarios:\n  - name: a\n    nothing_else: true\n", "file:2:5: scenario: no samples"},
      {"scenarios:\n  - name: a\n    series: {lss: 1}\n    nothing_else: true",
       "file:3:14: series: 'lss': no such"},
      {"scenarios:\n  - name: a\n    series: {loss: 1y}\n    nothing_else: true",
       "file:3:20: loss: '1y': expected"},
      {"scenarios:\n  - name: a\n    series: {\"loss[0]\": 1}\n    nothing_else: true",
       "file:3:14: series: 'loss[0]'"},
      {"scenarios:\n  - name: a\n    series: {\"logit_max[0]\": 1}\n    nothing_else: true",
       "file:2:5: series: a layer or head beyond the model's 0 layers"},
      {"scenarios:\n  - name: a\n    series: {loss: 1}\n", "file:2:5: scenario: expect: missing"},
      {"scenarios:\n  - name: a\n    series: {loss: 1}\n    expect: [{rule: no_such_rule}]\n",
       "file:4:14: expect: rule: 'no_such_rule'"},
      {"scenarios:\n  - name: a\n    every: 0\n    series: {loss: 1}\n    nothing_else: true\n",
       "file:3:12: every: '0'"},
      {"scenarios:\n  - name: a\n    until: 1000000000\n    nothing_else: true\n",
       "file:2:5: scenario: 1000000000"},
      {"rules: x.yaml\nscenarios:\n  - name: a\n    series: {loss: 1}\n    nothing_else: true\n",
       "file:1:8: rules:"},
      {"scenarios:\n  - name: a\n    expect: [{rule: stalled, fires: 3..1}]\n", "file:3:37: fires: '3..1'"},
  };
  for (const auto& [text, expected] : cases) {
    const Report report = RunScenarios(text, nullptr);
    ASSERT_FALSE(report.errors.empty()) << text;
    EXPECT_TRUE(rules::ToText("file", report.errors[0]).starts_with(expected))
        << text << "\n"
        << rules::ToText("file", report.errors[0]);
    EXPECT_TRUE(report.outcomes.empty());
  }
}

TEST(Scenario, MissingFilesAreErrors) {
  EXPECT_FALSE(RunScenarioFile("/nonexistent.yaml", nullptr).ok());
  const std::string path = testing::TempDir() + "foreshock_scenario.yaml";
  std::ofstream(path)
      << "rules: not_there.yaml\nscenarios:\n  - {name: a, series: {loss: 1}, nothing_else: true}\n";
  const auto report = RunScenarioFile(path, nullptr);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->errors.size(), 1u);
  EXPECT_EQ(report->errors[0].line, 1);
}

}  // namespace
}  // namespace foreshock::scenario
