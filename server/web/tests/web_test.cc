// The JSON API over a real HTTP server and a real store.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <nlohmann/json.hpp>

#include "foreshock/server/http/client.h"
#include "foreshock/server/http/server.h"
#include "foreshock/server/web/control_routes.h"
#include "foreshock/server/web/guard.h"
#include "foreshock/server/web/routes.h"
#include "foreshock/server/web/silence_routes.h"
#include "foreshock/tests/history.h"

namespace foreshock::web {
namespace {

using nlohmann::json;
using tests::Heads;
using tests::Loss;
using tests::Scalar;
using tests::Step;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Where actions would leave the server.
class Outgoing final : public ingest::Outbox {
 public:
  void PutAction(const std::string&, const std::string&, const wire::Action& action) override {
    last = action;
  }
  void PutProposal(const std::string&, const std::string&, const wire::Action&) override {}
  void WithdrawAction(const std::string&, const std::string&, const std::string&) override {}
  void SetSampling(const std::string&, const std::string&, const wire::Sampling& s) override { sampling = s; }
  size_t Connected(const std::string&, const std::string&) const override { return 0; }
  wire::Action last;
  wire::Sampling sampling;
};

class WebTest : public testing::Test {
 protected:
  void SetUp() override {
    alert::AlertOptions alert_options;
    alert_options.tick_interval = std::chrono::hours(1);
    alerts_ = *alert::AlertService::Start(alert_options, &history_.store(), &history_.clock());
    audit_ = *alert::AuditLog::Open(&history_.store(), &history_.clock());
    silences_ = *alert::Silences::Start({&history_.store(), alerts_.get(), audit_.get(), &history_.clock()});
    silence_api_ = std::make_unique<control::SilenceApi>(silences_.get(), audit_.get(), &history_.clock());
    query::QueryOptions options;
    options.silences = silences_.get();
    options.store = &history_.store();
    options.alerts = alerts_.get();
    options.clock = &history_.clock();
    queries_ = std::make_unique<query::Queries>(options);
    http::Routes routes;
    AddQueryRoutes(queries_.get(), &routes);
    controls_ = *control::Controls::Start(
        {.store = &history_.store(), .outbox = &outgoing_, .clock = &history_.clock(), .seed = 1});
    AddControlRoutes(controls_.get(), &routes);
    AddSilenceRoutes(silence_api_.get(), &routes);
    AddMetricsRoute([] { return std::string("up 1\n"); }, &routes);
    AddReportRoute(
        [](const std::vector<std::string>& runs) -> Result<std::string> {
          if (runs.empty()) return Status(Code::kInvalidArgument, "run: name at least one");
          return "<html>" + std::to_string(runs.size());
        },
        &routes);
    server_ = *http::Server::Start({}, std::move(routes));
  }

  http::ClientResponse Get(const std::string& path) {
    const auto got = http::Get("http://127.0.0.1:" + std::to_string(server_->port()) + path);
    EXPECT_TRUE(got.ok()) << got.status().ToString();
    return got.ok() ? *got : http::ClientResponse();
  }
  http::ClientResponse Post(const std::string& path, const std::string& body,
                            const std::string& type = "application/json") {
    const auto got = http::Post("http://127.0.0.1:" + std::to_string(server_->port()) + path, body, type);
    EXPECT_TRUE(got.ok()) << got.status().ToString();
    return got.ok() ? *got : http::ClientResponse();
  }
  json Ok(const std::string& path) {
    const http::ClientResponse got = Get(path);
    EXPECT_EQ(got.code, 200) << path << ": " << got.body;
    return json::parse(got.body);
  }
  // The field that the error names.
  std::string Refused(const std::string& path, int code) {
    const http::ClientResponse got = Get(path);
    EXPECT_EQ(got.code, code) << path << ": " << got.body;
    const json error = json::parse(got.body)["error"];
    EXPECT_FALSE(error["message"].get<std::string>().empty());
    return error["field"].is_null() ? "" : error["field"].get<std::string>();
  }

  tests::History history_;
  std::unique_ptr<alert::AlertService> alerts_;
  std::unique_ptr<alert::AuditLog> audit_;
  std::unique_ptr<alert::Silences> silences_;
  std::unique_ptr<control::SilenceApi> silence_api_;
  std::unique_ptr<query::Queries> queries_;
  Outgoing outgoing_;
  std::unique_ptr<control::Controls> controls_;
  std::unique_ptr<http::Server> server_;
};

TEST_F(WebTest, EveryCatalogueEntryOfAStepReadsBackBitForBit) {
  std::vector<wire::Series> series;
  const auto value_of = [](const SignalInfo& info, uint32_t i) {
    return std::bit_cast<float>(0x3f800000u + info.id * 1000 + i);
  };
  for (const SignalInfo& info : SignalCatalogue()) {
    if (info.scope == SignalScope::kScalar) {
      series.push_back(Scalar(info.id, value_of(info, 0)));
    } else {
      auto heads = Heads(info.id, 1, {value_of(info, 0), value_of(info, 1), kNan, 0}, {2, 3, 4, 5});
      heads.present = {1, 1, 1, 0};
      series.push_back(heads);
    }
  }
  history_.Put(history_.Hello("run"), Step(7, std::move(series)));
  const json step = Ok("/api/v1/runs/run/step/last");
  EXPECT_EQ(step["step"], 7);
  std::map<std::string, json> by_name;
  for (const json& s : step["frame"]["series"]) by_name[s["signal"]] = s;
  for (const SignalInfo& info : SignalCatalogue()) {
    const std::string name(info.name);
    if (info.scope == SignalScope::kScalar) {
      EXPECT_EQ(static_cast<float>(step["frame"]["scalars"][name]["value"].get<double>()), value_of(info, 0))
          << name;
      continue;
    }
    ASSERT_TRUE(by_name.contains(name)) << name;
    const bool ratio = info.merge == SignalMerge::kRatio;
    const json& values = by_name[name]["values"];
    for (uint32_t i = 0; i < 2; ++i) {
      const json& number = ratio ? values[i]["numerator"] : values[i];
      EXPECT_EQ(static_cast<float>(number.get<double>()), value_of(info, i)) << name;
    }
    EXPECT_EQ(ratio ? values[2]["numerator"] : values[2], "NaN") << name;
    EXPECT_TRUE(values[3].is_null()) << name;
    EXPECT_EQ(by_name[name]["weights"], json::parse("[2,3,4,null]")) << name;
  }
}

TEST_F(WebTest, SeriesOfALayerAndHeads) {
  const auto source = history_.Hello("team/gpt 2");
  for (int64_t step = 0; step < 20; ++step) {
    history_.Put(source, Step(step, {Scalar(kLoss, step == 5 ? kNan : 2),
                                     Heads(kLogitMax, 0, {1, 2, 3, static_cast<float>(step)})}));
  }
  const json got = Ok("/api/v1/runs/team%2Fgpt%202/series?signal=logit_max&layer=0&head=1,3&from=3&to=6");
  ASSERT_EQ(got["points"].size(), 4u);
  EXPECT_EQ(got["points"][0]["step"], 3);
  EXPECT_EQ(got["points"][0]["series"]["heads"], json::parse("[1,3]"));
  EXPECT_EQ(got["points"][0]["series"]["values"], json::parse("[2,3]"));
  EXPECT_TRUE(got["rank"].is_null());
  const json loss = Ok("/api/v1/runs/team%2Fgpt%202/series?signal=loss&from=5&to=5&rank=0&attempt=1");
  EXPECT_EQ(loss["points"][0]["series"]["values"], json::parse("[\"NaN\"]"));
  const json rolled = Ok("/api/v1/runs/team%2Fgpt%202/rollup?signal=logit_max&layer=0&head=3&points=4");
  EXPECT_EQ(rolled["heads"], json::parse("[3]"));
  ASSERT_EQ(rolled["buckets"].size(), 4u);
  EXPECT_EQ(rolled["buckets"][1], json::parse(R"({"first_step":5,"last_step":9,"steps":5,"counts":[5],
                                                  "min":[5],"mean":[7],"max":[9]})"));
}

TEST_F(WebTest, RunsAlertsEventsStatusAndCatalogue) {
  const auto source = history_.Hello("run");
  history_.Checkpoint(source, 1);
  history_.Put(source, Loss(2, kNan));
  alerts_->Flush();
  EXPECT_EQ(Ok("/api/v1/runs")["runs"][0]["firing_criticals"], 1);
  EXPECT_EQ(Ok("/api/v1/runs?prefix=x")["runs"].size(), 0u);
  EXPECT_EQ(Ok("/api/v1/runs/run")["last_loss"], "NaN");
  EXPECT_EQ(Ok("/api/v1/runs/run/alerts")["alerts"][0]["rule"], "non_finite");
  EXPECT_EQ(Ok("/api/v1/alerts?firing=true")["alerts"][0]["value"], "NaN");
  EXPECT_EQ(Ok("/api/v1/runs/run/events")["events"][0]["kind"], "checkpoint");
  EXPECT_EQ(Ok("/api/v1/status")["health"], "ok");
  const json catalogue = Ok("/api/v1/catalogue");
  EXPECT_EQ(catalogue["signals"].size(), SignalCatalogue().size());
  EXPECT_FALSE(catalogue["rules"].empty());
  EXPECT_EQ(Get("/healthz").body, "ok\n");
  EXPECT_EQ(Get("/metrics").body, "up 1\n");
  EXPECT_EQ(Get("/report?run=a&run=b").body, "<html>2");
}

TEST_F(WebTest, ErrorsNameWhatIsWrong) {
  history_.Put(history_.Hello("run"), Loss(2, 1));
  EXPECT_EQ(Refused("/api/v1/runs/run/rollup?signal=logit_max", 400), "layer");
  EXPECT_EQ(Refused("/api/v1/runs/run/rollup?signal=loss&points=0", 400), "points");
  EXPECT_EQ(Refused("/api/v1/runs/run/series", 400), "signal");
  EXPECT_EQ(Refused("/api/v1/runs/run/series?signal=nope", 400), "signal");
  EXPECT_EQ(Refused("/api/v1/runs/run/series?signal=logit_max&layer=-1", 400), "layer");
  EXPECT_EQ(Refused("/api/v1/runs/run/series?signal=logit_max&head=1,x", 400), "head");
  EXPECT_EQ(Refused("/api/v1/runs/run/series?signal=loss&layer=1", 400), "layer");
  EXPECT_EQ(Refused("/api/v1/runs/run/series?signal=loss&from=9999999999999999999999", 400), "from");
  EXPECT_EQ(Refused("/api/v1/runs/run/series?signal=loss&form=1", 400), "form");
  EXPECT_EQ(Refused("/api/v1/runs/run/step/abc", 400), "step");
  EXPECT_EQ(Refused("/api/v1/runs/run/step/-7", 400), "step");
  EXPECT_EQ(Refused("/api/v1/runs/run/step/1?exact=maybe", 400), "exact");
  EXPECT_EQ(Refused("/api/v1/alerts?firing=perhaps", 400), "firing");
  EXPECT_EQ(Refused("/report", 400), "run");
  Refused("/api/v1/runs/nobody", 404);
  Refused("/api/v1/runs/nobody/alerts", 404);
  Refused("/api/v1/runs/run/step/1", 404);
  Refused("/api/v1/runs/run/series?signal=loss&attempt=7", 404);
  Refused("/api/v2/runs", 404);
}

TEST_F(WebTest, ActionsArePostedAndListed) {
  history_.Put(history_.Hello("run"), Loss(2, 1));
  const std::string path = "/api/v1/runs/run/actions";
  const auto posted =
      Post(path, R"({"kind":"qk_clip","value":50,"layers":[0,1],"expiry_step":100,"issuer":"me"})");
  ASSERT_EQ(posted.code, 201) << posted.body;
  const json action = json::parse(posted.body)["action"];
  EXPECT_EQ(action["id"], outgoing_.last.id);
  EXPECT_EQ(outgoing_.last.value, 50);
  const json list = Ok(path);
  EXPECT_EQ(list["actions"][0]["state"], "proposed");
  EXPECT_EQ(list["actions"][0]["action"]["issuer"], "me");
  EXPECT_TRUE(list["actions"][0]["logit_before"].is_null());
  EXPECT_EQ(Post("/api/v1/runs/run/sampling", R"({"sampling":{"row_stride":2}})").code, 200);
  EXPECT_EQ(outgoing_.sampling.row_stride, 2u);
}

TEST_F(WebTest, BadPostsAreRefused) {
  history_.Put(history_.Hello("run"), Loss(2, 1));
  const std::string path = "/api/v1/runs/run/actions";
  EXPECT_EQ(Post(path, "{\"kind\":\"stop\"}", "text/plain").code, 400) << "what a foreign page could send";
  EXPECT_EQ(Post(path, "nonsense").code, 400);
  EXPECT_EQ(Post(path, "").code, 400);
  EXPECT_EQ(Post(path, R"({"kind":"stop","unknown":1})").code, 400);
  EXPECT_EQ(Post(path, R"({"kind":"explode"})").code, 400);
  EXPECT_EQ(Post(path, R"({"kind":"stop","run":"other"})").code, 400);
  EXPECT_EQ(Post("/api/v1/runs/nobody/actions", R"({"kind":"stop"})").code, 404);
  EXPECT_EQ(Post("/api/v1/runs/run/sampling", R"({"sampling":{}})").code, 400);
  EXPECT_TRUE(outgoing_.last.id.empty());
}

TEST_F(WebTest, SilencesAndAcknowledgementsShowAtTheAlerts) {
  wire::Hello hello = tests::SmallHello("run");
  hello.labels = {{"team", "nlp"}};
  history_.Put(history_.Hello(hello), Loss(1, kNan));
  history_.Put(history_.Hello("other"), Loss(1, kNan));
  alerts_->Flush();
  EXPECT_EQ(Ok("/api/v1/alerts?label=team=nlp")["alerts"].size(), 1u);
  EXPECT_EQ(Ok("/api/v1/runs?label=team=nlp")["runs"].size(), 1u);
  EXPECT_EQ(Ok("/api/v1/runs?label=team=cv")["runs"].size(), 0u);
  EXPECT_EQ(Refused("/api/v1/runs?label=team", 400), "label");
  const http::ClientResponse made = Post(
      "/api/v1/silences", R"({"silence":{"run":"ru*","severity":"critical","author":"ada"},"seconds":60})");
  EXPECT_EQ(made.code, 201) << made.body;
  const json silence = json::parse(made.body);
  EXPECT_EQ(silence["state"], "active");
  EXPECT_EQ(silence["severity"], "critical");
  EXPECT_TRUE(silence["layer"].is_null());
  const http::ClientResponse taken =
      Post("/api/v1/runs/run/acknowledge", R"({"author":"bob","comment":"mine"})");
  EXPECT_EQ(taken.code, 201) << taken.body;
  const json alert = Ok("/api/v1/runs/run/alerts")["alerts"][0];
  EXPECT_EQ(alert["silences"], json::array({silence["id"]}));
  EXPECT_EQ(alert["acknowledgement"]["author"], "bob");
  EXPECT_EQ(alert["labels"], json::parse(R"({"team":"nlp"})"));
  EXPECT_EQ(alert["incident"], alert["id"]);
  EXPECT_EQ(Ok("/api/v1/silences")["silences"].size(), 2u);
  const std::string id = silence["id"];
  EXPECT_EQ(Post("/api/v1/silences/" + id + "/expire", R"({"author":"eve"})").code, 200);
  EXPECT_EQ(Ok("/api/v1/silences")["silences"].size(), 1u);
  EXPECT_EQ(Ok("/api/v1/silences?expired=true&run=run")["silences"].size(), 2u);
  const json trail = Ok("/api/v1/audit?limit=2")["entries"];
  ASSERT_EQ(trail.size(), 2u);
  EXPECT_EQ(trail[0]["what"], "silence_expired");
  EXPECT_EQ(trail[0]["who"], "eve");
  EXPECT_EQ(Post("/api/v1/silences", R"({"silence":{"run":"r"}})").code, 400) << "has no end";
  EXPECT_EQ(Post("/api/v1/silences", R"({"silence":{"run":"r"},"seconds":60})", "text/plain").code, 400);
  EXPECT_EQ(Post("/api/v1/runs/none/acknowledge", "{}").code, 404);
}

TEST(SilenceRoutes, PostsNeedTheControlToken) {
  http::Routes routes;
  const auth::Gate gate({.control_token = "a token of enough bytes"});
  AddGuard(&gate, {}, &routes);
  const control::SilenceApi nobody(nullptr, nullptr, nullptr);  // not reached
  AddSilenceRoutes(&nobody, &routes);
  for (const char* target : {"/api/v1/silences", "/api/v1/silences/x/expire", "/api/v1/runs/r/acknowledge"}) {
    http::Request request;
    request.method = "POST";
    request.target = target;
    request.content_type = "application/json";
    EXPECT_EQ(routes.Dispatch(request).code, 403) << target;
  }
}

}  // namespace
}  // namespace foreshock::web
