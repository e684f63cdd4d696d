#include "foreshock/server/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "foreshock/tests/history.h"

namespace foreshock::report {
namespace {

using tests::Heads;
using tests::History;
using tests::Scalar;

class ReportTest : public testing::Test {
 protected:
  void SetUp() override {
    alert::AlertOptions alert_options;
    alert_options.tick_interval = std::chrono::hours(1);
    alerts_ = *alert::AlertService::Start(alert_options, &history_.store(), &history_.clock());
    options_.store = &history_.store();
    options_.alerts = alerts_.get();
    options_.clock = &history_.clock();
  }

  // A run of `steps` steps that learns; from `fault` on head 2 of layer 1 grows, from `fault` + 150 the loss
  // rises.
  void Write(const std::string& run, int64_t steps, int64_t fault, int64_t guard = -1) {
    const auto source = history_.Hello(run);
    for (int64_t step = 0; step < steps; step += 5) {
      const bool contained = guard >= 0 && step >= guard;
      const double grown =
          fault >= 0 && step > fault && !contained ? static_cast<double>(step - fault) / 40 : 0;
      double loss = 1.8 + 3.6 * std::exp(-static_cast<double>(step) / 150) +
                    0.05 * std::sin(static_cast<double>(step) * 1.7);
      if (fault >= 0 && step > fault + 150 && !contained)
        loss += std::min(3.0, static_cast<double>(step - fault - 150) / 60);
      std::vector<wire::Series> series = {Scalar(kLoss, static_cast<float>(loss))};
      if (step == 600 && fault >= 0 && (guard < 0 || guard > 600)) series[0].values[0] = std::nanf("");
      for (uint32_t layer = 0; layer < 2; ++layer) {
        std::vector<float> logit, sigma, saturated;
        for (uint32_t head = 0; head < 4; ++head) {
          const double g = layer == 1 && head == 2 ? grown : 0;
          const double wobble = 0.3 * std::sin(0.05 * static_cast<double>(step) + head + 3 * layer);
          logit.push_back(static_cast<float>(6 + 2 * head + wobble + 30 * g));
          sigma.push_back(static_cast<float>(2 + wobble + 3 * g));
          saturated.push_back(static_cast<float>(std::min(100.0, 3 + wobble + 9 * g)));
        }
        series.push_back(Heads(kLogitMax, layer, logit, {100}));
        series.push_back(Heads(kQkSigma1, layer, sigma));
        auto fraction = Heads(kSaturatedRowFraction, layer, saturated, {100, 100, 100, 100});
        if (layer == 0) fraction.present = {1, 1, 1, 0};
        series.push_back(fraction);
      }
      history_.Put(source, tests::Step(step, std::move(series)));
      if (step % 200 == 0) history_.Checkpoint(source, step);
      if (step == guard) {
        wire::Event event;
        event.kind = wire::EventKind::kGuard;
        event.detail = "on";
        event.step = step;
        history_.Put(source, event);
        event.kind = wire::EventKind::kAction;  // as a guard tells it: what came of the switch, later
        event.detail = "the logits fell";
        event.action_id = "guard-" + std::to_string(guard);
        event.action = "enable_qk_norm";
        event.action_state = wire::ActionState::kEffective;
        event.logit_before = 180;
        event.logit_after = 3.5f;
        history_.Put(source, event);
      }
    }
    history_.Goodbye(source, steps);
    alerts_->Flush();
  }
  // The page; also written to $FORESHOCK_REPORT_OUT for looking at it.
  std::string Page(const std::vector<std::string>& runs) {
    const auto page = Render(options_, runs);
    EXPECT_TRUE(page.ok()) << page.status().ToString();
    if (const char* out = std::getenv("FORESHOCK_REPORT_OUT")) std::ofstream(out) << page.value();
    return page.ok() ? *page : "";
  }
  static nlohmann::json Data(const std::string& page) {
    const std::string begin = "id=\"data\">";
    const size_t at = page.find(begin) + begin.size();
    return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
  }

  History history_;
  std::unique_ptr<alert::AlertService> alerts_;
  ReportOptions options_;
};

TEST_F(ReportTest, ComparesRunsOnOnePage) {
  Write("healthy", 1000, -1);
  Write("guarded", 1000, 300, 420);
  Write("faulty", 1000, 300);
  const std::string page = Page({"healthy", "faulty", "guarded"});
  EXPECT_NE(page.find("collapsed at step"), std::string::npos);
  EXPECT_NE(page.find("guard on at step 420"), std::string::npos);
  EXPECT_NE(page.find("no alerts"), std::string::npos);
  const auto count = [&](const std::string& text) {
    size_t n = 0;
    for (size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<table>"), count("</table>"));
  size_t alerts = 0;
  for (const char* run : {"healthy", "faulty", "guarded"}) alerts += alerts_->OfRun(run)->size();
  EXPECT_GT(alerts, 0u);
  EXPECT_EQ(count("<td class=\"what\">"), alerts) << "every alert once";
  const auto data = Data(page);
  ASSERT_EQ(data["runs"].size(), 3u);
  EXPECT_EQ(data["runs"][1]["run"], "faulty");
  EXPECT_EQ(data["runs"][1]["lossSteps"].size(), 200u);
  EXPECT_EQ(data["runs"][1]["loss"][120], "NaN");
  EXPECT_EQ(data["runs"][1]["maps"][0]["name"], "logit_max");
  const auto& panel = data["panels"][0];
  EXPECT_EQ(panel["layer"], 1);
  EXPECT_EQ(panel["head"], 2) << "the one that grows";
  EXPECT_EQ(panel["signals"][0]["lines"].size(), 3u) << "in all runs";
  const auto& map = data["runs"][0]["maps"][2];
  EXPECT_EQ(map["name"], "saturated_row_fraction");
  EXPECT_EQ(map["values"].size(), map["steps"].size() * 8);
  EXPECT_TRUE(map["values"][3].is_null()) << "missing stays missing";
}

TEST_F(ReportTest, TellsWhatHappenedToARunThatWentWrong) {
  Write("healthy", 1000, -1);
  Write("faulty", 1000, 300);
  EXPECT_EQ(Page({"healthy"}).find("What happened"), std::string::npos);
  std::string page = Page({"healthy", "faulty"});
  const size_t at = page.find("id=\"what-happened\"");
  ASSERT_NE(at, std::string::npos);
  page = page.substr(at, page.find("</section>", at) - at);
  EXPECT_EQ(page.find("<h3>healthy</h3>"), std::string::npos);
  EXPECT_NE(page.find("<h3>faulty</h3>"), std::string::npos);
  // The oldest evidence of the incident, and the last checkpoint before it.
  const auto alerts = *alerts_->OfRun("faulty");
  const alert::AlertRecord* oldest = nullptr;
  for (const auto& record : alerts) {
    if (oldest == nullptr || record.alert.first_evidence_step < oldest->alert.first_evidence_step)
      oldest = &record;
  }
  ASSERT_NE(oldest, nullptr);
  EXPECT_NE(page.find("step <b>" + std::to_string(oldest->alert.first_evidence_step) + "</b>"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("<dt>Last checkpoint before it</dt><dd>step <b>" +
                      std::to_string(*oldest->alert.last_checkpoint_step) + "</b>"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("<b>layer 1, head 2</b>"), std::string::npos) << "the head that goes first\n" << page;
  EXPECT_NE(page.find("<dt>What was done</dt><dd>nothing"), std::string::npos);
  EXPECT_NE(page.find("collapsed at step"), std::string::npos);
  EXPECT_NE(page.find("arXiv"), std::string::npos);
  Write("late", 1000, 300, 700);
  const std::string late = Page({"late"});
  EXPECT_NE(late.find("<b>guard on</b>, layers all</div>"), std::string::npos);
  EXPECT_NE(late.find("<b>enable_qk_norm</b> effective, layers all; largest logit 180 → 3.5"),
            std::string::npos);
}

TEST_F(ReportTest, NothingIsLoadedFromAnywhere) {
  Write("run", 50, -1);
  const std::string page = Page({"run"});
  for (const char* loader :
       {"src=\"", "<link", "@import", "url(", "sourceMappingURL", "fetch(", "XMLHttpRequest("}) {
    // The library can load a file that it is given by name, and has an icon of its own as a data: address.
    const bool in_library = std::string(loader) == "XMLHttpRequest(" || std::string(loader) == "src=\"";
    size_t count = 0;
    for (size_t at = page.find(loader); at != std::string::npos; at = page.find(loader, at + 1)) ++count;
    EXPECT_LE(count, in_library ? 1u : 0u) << loader;
  }
  EXPECT_NE(page.find("src=\"data:image/png"), std::string::npos);
}

TEST_F(ReportTest, StrangeNamesAreEscaped) {
  const std::string name = "</script><b>&\"'x";
  const auto source = history_.Hello(name);
  history_.Put(source, tests::Loss(1, std::nanf("")));
  alerts_->Flush();
  const std::string page = Page({name});
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_EQ(Data(page)["runs"][0]["run"], name);
  EXPECT_NE(page.find("&lt;/script&gt;&lt;b&gt;&amp;&quot;&#39;x"), std::string::npos);
}

TEST_F(ReportTest, AFaultThatTheTrainerToldIsShown) {
  const auto source = history_.Hello("faulty");
  wire::Event note;
  note.kind = wire::EventKind::kNote;
  note.step = 1000;
  note.detail = "fault delta:0.01";
  history_.Put(source, note);
  history_.Put(source, tests::Loss(1001, 2));
  alerts_->Flush();
  EXPECT_NE(Page({"faulty"}).find("<small>fault delta:0.01 from step 1,000</small>"), std::string::npos);
}

TEST_F(ReportTest, ARunWithoutDataStillGivesAPage) {
  history_.Hello("empty");
  const std::string page = Page({"empty"});
  EXPECT_NE(page.find("no data"), std::string::npos);
}

TEST_F(ReportTest, BadRequestsAreRefused) {
  EXPECT_EQ(Render(options_, {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Render(options_, std::vector<std::string>(13, "x")).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Render(options_, {"nobody"}).status().code(), Code::kNotFound);
}

TEST_F(ReportTest, ActionsAreShownWithTheirEffect) {
  Write("run", 50, -1);
  options_.actions = [](const v1::ListActionsRequest&) {
    v1::ListActionsReply reply;
    v1::ActionRecord& record = *reply.add_actions();
    record.mutable_action()->set_kind("enable_qk_norm");
    record.mutable_action()->set_attempt("1");
    record.mutable_action()->set_issuer("operator");
    record.set_state(v1::ACTION_STATE_EFFECTIVE);
    record.set_logit_before(180.5f);
    record.set_logit_after(3.25f);
    return Result<v1::ListActionsReply>(reply);
  };
  const std::string page = Page({"run"});
  EXPECT_NE(page.find("enable_qk_norm"), std::string::npos);
  EXPECT_NE(page.find("180.5 → 3.25"), std::string::npos);
}

TEST_F(ReportTest, LongRunsGiveBoundedPages) {
  options_.max_loss_points = 200;
  options_.max_signal_points = 50;
  Write("long", 5000, 300);
  const auto data = Data(Page({"long"}));
  const auto run = data["runs"][0];
  EXPECT_LE(run["lossSteps"].size(), 200u);
  EXPECT_LE(data["panels"][0]["signals"][0]["medianSteps"].size(), 51u);
  EXPECT_LE(run["maps"][0]["steps"].size(), 49u);
}

}  // namespace
}  // namespace foreshock::report
