#include "foreshock/server/remote_write/relabel.h"

#include <gtest/gtest.h>

namespace foreshock::remote_write {
namespace {

const Labels kSeries = {
    {"__name__", "foreshock_logit_max"}, {"run", "gpt-7b/2"}, {"layer", "3"}, {"stat", "max"}};

std::optional<Labels> With(std::vector<RelabelRule> rules, Labels labels = kSeries) {
  auto relabelling = Relabelling::Create(std::move(rules));
  EXPECT_TRUE(relabelling.ok()) << relabelling.status().ToString();
  return relabelling->Apply(std::move(labels));
}

std::string RelabelledTo(const std::optional<Labels>& labels, const std::string& name) {
  if (!labels) return "(dropped)";
  for (const auto& [key, value] : *labels) {
    if (key == name) return value;
  }
  return "(absent)";
}

TEST(Relabel, NoRulesSortAndKeepAll) {
  const auto labels = With({}, {{"run", "r"}, {"__name__", "m"}, {"empty", ""}});
  EXPECT_EQ(labels, (Labels{{"__name__", "m"}, {"run", "r"}}));
}

TEST(Relabel, ReplaceTakesGroupsAndNeedsAWholeMatch) {
  RelabelRule rule{
      .source_labels = {"run"}, .regex = "(.*)/(\\d+)", .target_label = "try", .replacement = "n${2}-$1"};
  EXPECT_EQ(RelabelledTo(With({rule}), "try"), "n2-gpt-7b");
  rule.regex = "gpt";
  EXPECT_EQ(RelabelledTo(With({rule}), "try"), "(absent)");
}

TEST(Relabel, ReplaceWithNothingRemoves) {
  const RelabelRule rule{.source_labels = {}, .target_label = "stat", .replacement = ""};
  EXPECT_EQ(RelabelledTo(With({rule}), "stat"), "(absent)");
}

TEST(Relabel, SourcesAreJoined) {
  const RelabelRule rule{
      .source_labels = {"layer", "nowhere", "stat"}, .separator = "|", .target_label = "joined"};
  EXPECT_EQ(RelabelledTo(With({rule}), "joined"), "3||max");
}

TEST(Relabel, KeepAndDropByValue) {
  const RelabelRule keep{.action = RelabelAction::kKeep, .source_labels = {"stat"}, .regex = "max|min"};
  const RelabelRule drop{
      .action = RelabelAction::kDrop, .source_labels = {"__name__"}, .regex = "foreshock_logit.*"};
  EXPECT_TRUE(With({keep}));
  EXPECT_FALSE(With({drop}));
  EXPECT_FALSE(With({keep}, {{"__name__", "m"}, {"stat", "median"}}));
}

TEST(Relabel, LabelsByName) {
  const RelabelRule drop{.action = RelabelAction::kLabelDrop, .regex = "la.*"};
  const RelabelRule keep{.action = RelabelAction::kLabelKeep, .regex = "__name__|run"};
  const RelabelRule map{.action = RelabelAction::kLabelMap, .regex = "(run|layer)", .replacement = "fs_$1"};
  EXPECT_EQ(RelabelledTo(With({drop}), "layer"), "(absent)");
  EXPECT_EQ(With({keep})->size(), 2u);
  EXPECT_EQ(RelabelledTo(With({map}), "fs_layer"), "3");
  EXPECT_EQ(RelabelledTo(With({map}), "layer"), "3");
}

TEST(Relabel, WithoutANameNothingIsSent) {
  EXPECT_FALSE(With({{.action = RelabelAction::kLabelDrop, .regex = "__name__"}}));
}

TEST(Relabel, BadRulesSayWhichAndWhat) {
  const auto error = [](RelabelRule rule) {
    return Relabelling::Create({{.source_labels = {"run"}, .target_label = "ok"}, std::move(rule)})
        .status()
        .message();
  };
  EXPECT_NE(error({.regex = "(", .target_label = "x"}).find("rule 2: regex '('"), std::string::npos);
  EXPECT_NE(error({.target_label = "9x"}).find("target_label '9x'"), std::string::npos);
  EXPECT_NE(error({.action = RelabelAction::kDrop}).find("source_labels"), std::string::npos);
  EXPECT_FALSE(ParseRelabelAction("hashmod"));
  EXPECT_EQ(ParseRelabelAction("labelmap"), RelabelAction::kLabelMap);
}

}  // namespace
}  // namespace foreshock::remote_write
