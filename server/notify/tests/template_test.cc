// Templates: what they make, and how bad ones are refused.
#include "template.h"

#include <nlohmann/json.hpp>

#include "notifier_fixture.h"

namespace foreshock::notify {
namespace {

alert::AlertRecord Runaway() {
  alert::AlertRecord r;
  r.alert.id = "gpt/1/qk_runaway/critical/900";
  r.alert.run = "gpt";
  r.alert.rule = "qk_runaway";
  r.alert.severity = detect::Severity::kCritical;
  r.alert.state = alert::AlertState::kFiring;
  r.alert.layer = 2;
  r.alert.head = 5;
  r.alert.summary = "head \"5\" <runs> away";
  r.alert.fired_step = 930;
  r.alert.last_checkpoint_step = 800;
  r.last_checkpoint = "ckpt/800";
  r.run_labels = {{"team", "nlp"}};
  return r;
}

alert::AlertRecord Ended() {
  alert::AlertRecord r = Runaway();
  r.alert.rule = "loss_spike";
  r.alert.layer = r.alert.head = -1;
  r.alert.last_checkpoint_step.reset();
  r.last_checkpoint.clear();
  r.alert.state = alert::AlertState::kResolved;
  r.alert.first_evidence_step = 950;
  return r;
}

std::string Render(const std::string& text, MessageTemplate::Escape escape,
                   std::vector<alert::AlertRecord> records) {
  const auto parsed = MessageTemplate::Parse(text, escape);
  EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
  return parsed.ok() ? parsed->Render({"gpt", std::move(records), ""}) : "";
}

constexpr auto kJsonText = MessageTemplate::Escape::kJson;
constexpr auto kSlackText = MessageTemplate::Escape::kSlack;

TEST(Templates, MakeJsonOfEveryGroup) {
  const std::string text = R"({"title":"{{run}} {{status}}","count":{{count}},{{! a comment }}
"alerts":[{{#alerts}}{"rule":"{{rule}}","head":{{#head}}{{head}}{{/head}}{{^head}}null{{/head}},
"summary":"{{summary}}","team":"{{label.team}}"}{{^last}},{{/last}}{{/alerts}}]})";
  const auto made = nlohmann::json::parse(Render(text, kJsonText, {Runaway(), Ended()}));
  EXPECT_EQ(made["title"], "gpt firing");
  EXPECT_EQ(made["count"], 2);
  EXPECT_EQ(made["alerts"][0]["summary"], "head \"5\" <runs> away");
  EXPECT_EQ(made["alerts"][0]["head"], 5);
  EXPECT_EQ(made["alerts"][0]["team"], "nlp");
  EXPECT_TRUE(made["alerts"][1]["head"].is_null());
}

TEST(Templates, MakeTextForSlack) {
  const std::string text =
      "{{first_rule}} at {{first_where}}\n{{#firing}}{{summary}}{{#last_checkpoint}} back to "
      "{{last_checkpoint_step}}{{/last_checkpoint}}{{/firing}}{{#resolved}}; over: {{rule}}{{/resolved}}";
  EXPECT_EQ(Render(text, kSlackText, {Runaway(), Ended()}),
            "qk_runaway at layer 2, head 5\nhead \"5\" &lt;runs&gt; away back to 800; over: loss_spike");
  EXPECT_EQ(Render("{{^firing}}calm{{/firing}}", kSlackText, {Ended()}), "calm");
}

struct BadTemplate {
  const char* text;
  const char* says;
};

class BadTemplates : public ::testing::TestWithParam<BadTemplate> {};

TEST_P(BadTemplates, AreRefusedWithLineAndColumn) {
  const auto parsed = MessageTemplate::Parse(GetParam().text, kSlackText);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
  EXPECT_NE(parsed.status().message().find(GetParam().says), std::string::npos) << parsed.status().message();
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadTemplates,
    ::testing::Values(BadTemplate{"a\nb {{runn}}",
                                  "line 2, column 3: 'runn' is not known; known are run, status"},
                      BadTemplate{"{{run", "line 1, column 1: {{ without }}"},
                      BadTemplate{"{{#alerts}}\n{{rule}}", "line 1, column 1: {{#alerts}} is never closed"},
                      BadTemplate{"x{{/alerts}}", "line 1, column 2: {{/alerts}} closes nothing"},
                      BadTemplate{"{{#alerts}}{{#head}}{{/alerts}}", "{{/alerts}} where {{/head}} is due"},
                      BadTemplate{"{{rule}}", "is of an alert: write it within {{#alerts}}"},
                      BadTemplate{"{{alerts}}", "is a list"},
                      BadTemplate{"{{#alerts}}{{#firing}}{{/firing}}{{/alerts}}", "a list within a list"},
                      BadTemplate{"{{label.}}", "not known"}, BadTemplate{"{{}}", "not known"},
                      BadTemplate{"", "0 bytes, expected 1 to 65536"}));

TEST(Templates, DeepNestingAndSizeAreBounded) {
  std::string deep;
  for (int i = 0; i < 9; ++i) deep += "{{#run}}";
  for (int i = 0; i < 9; ++i) deep += "{{/run}}";
  EXPECT_NE(MessageTemplate::Parse(deep, kSlackText).status().message().find("deeper than 8"),
            std::string::npos);
  EXPECT_FALSE(MessageTemplate::Parse(std::string(70'000, 'x'), kSlackText).ok());
}

TEST(Templates, WhatIsNotAlwaysJsonIsRefused) {
  const auto says = [](const std::string& text) {
    return MessageTemplate::Parse(text, kJsonText).status().message();
  };
  EXPECT_NE(says("{{run}}").find("does not become JSON"), std::string::npos);
  const std::string no_layer = says(
      R"({"x":[{{#alerts}}{{layer}}{{^last}},{{/last}}{{/alerts}}],"y":[{{#firing}}{{layer}}{{/firing}}1]})");
  EXPECT_NE(no_layer.find("JSON"), std::string::npos);
  EXPECT_NE(says(R"([{{#alerts}}{"v":{{value}}}{{^last}},{{/last}}{{/alerts}}])").find("of the whole run"),
            std::string::npos)
      << "a value may be NaN: it needs quotes";
  EXPECT_NE(says(R"([{{#alerts}}"{{rule}}"{{/alerts}}])").find("several alerts"), std::string::npos)
      << "a comma is missing between alerts";
}

class TemplatedTest : public NotifierTest {};

TEST_F(TemplatedTest, AWebhookGetsWhatTheTemplateMakes) {
  Start(TargetKind::kWebhook, {},
        R"({"text":"{{run}}: {{#alerts}}{{rule}} {{state}}{{/alerts}}","link":"{{url}}"})");
  Fire("a\"b");
  const auto got = After(std::chrono::seconds(3));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["text"], "a\"b: non_finite firing");
  EXPECT_EQ(got[0]["link"], "http://here/report?run=a%22b");
}

TEST_F(TemplatedTest, SlackGetsWhatTheTemplateMakes) {
  Start(TargetKind::kSlack, {}, "{{run}} *{{worst_severity}}*");
  Fire("a<b>");
  const auto got = After(std::chrono::seconds(3));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["text"], "a&lt;b&gt; *critical*");
}

TEST_F(TemplatedTest, ABadTemplateStopsTheStart) {
  NotifyOptions options;
  options.targets = {{.kind = TargetKind::kSlack, .url = "http://x", .message_template = "{{nonsense}}"}};
  options.store = &history_.store();
  options.alerts = alerts_.get();
  options.clock = &history_.clock();
  const auto started = Notifier::Start(options);
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.status().message().find("targets[0]: line 1, column 1: 'nonsense'"), std::string::npos)
      << started.status().message();
  EXPECT_EQ(CheckTemplate("{{nonsense}}", false).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace foreshock::notify
