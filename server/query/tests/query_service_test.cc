#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "foreshock/rpc/server.h"
#include "foreshock/rpc/services.h"
#include "foreshock/server/query/query_service.h"
#include "foreshock/tests/history.h"

namespace foreshock::query {
namespace {

using tests::Heads;
using tests::History;
using tests::Loss;
using tests::Scalar;
using tests::Step;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// A real gRPC server over a real store.
class QueryServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    alert::AlertOptions alert_options;
    alert_options.tick_interval = std::chrono::hours(1);
    alerts_ = *alert::AlertService::Start(alert_options, &history_.store(), &history_.clock());
    QueryOptions options;
    options.store = &history_.store();
    options.alerts = alerts_.get();
    options.clock = &history_.clock();
    options.data_folder = history_.folder();
    options.counters = [] { return std::map<std::string, uint64_t>{{"ingest_frames", 7}}; };
    queries_ = std::make_unique<Queries>(options);
    service_ =
        QueryService::Create(queries_.get(), [](const std::vector<std::string>& runs) -> Result<std::string> {
          if (runs.empty()) return Status(Code::kInvalidArgument, "run: none named");
          return std::string(600'000, 'x');
        });
    auto server = rpc::Server::Start({}, nullptr, {service_->service()});
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::Query::NewStub(channel_);
  }
  void TearDown() override {
    service_->Shutdown();
    server_->Stop(100);
  }

  v1::ReadSeriesRequest Ask(const std::string& signal) {
    v1::ReadSeriesRequest request;
    request.set_run("run");
    request.set_signal(signal);
    return request;
  }
  std::vector<v1::SeriesPoint> Read(const v1::ReadSeriesRequest& request, grpc::Status* status) {
    grpc::ClientContext context;
    auto reader = stub_->ReadSeries(&context, request);
    std::vector<v1::SeriesPoint> points;
    v1::SeriesPoints piece;
    while (reader->Read(&piece)) points.insert(points.end(), piece.points().begin(), piece.points().end());
    *status = reader->Finish();
    return points;
  }
  grpc::Status Refused(const v1::ReadSeriesRequest& request) {
    grpc::Status status;
    Read(request, &status);
    return status;
  }

  History history_;
  std::unique_ptr<alert::AlertService> alerts_;
  std::unique_ptr<Queries> queries_;
  std::unique_ptr<QueryService> service_;
  std::unique_ptr<rpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Query::Stub> stub_;
};

TEST_F(QueryServiceTest, RunsShowModelAttemptsStateAndLastLoss) {
  auto hello = tests::SmallHello("team/gpt");
  hello.labels["owner"] = "me";
  hello.unmonitored = {{"layer 3", "dropout"}};
  const auto source = history_.Hello(hello);
  history_.Put(source, Loss(10, 2.5f));
  history_.Put(source, Loss(11, kNan));
  history_.Hello("other");
  alerts_->Flush();
  grpc::ClientContext context;
  v1::GetRunRequest request;
  request.set_run("team/gpt");
  v1::Run run;
  ASSERT_TRUE(stub_->GetRun(&context, request, &run).ok());
  EXPECT_EQ(run.state(), v1::RUN_STATE_RUNNING);
  EXPECT_EQ(run.last_step(), 11);
  EXPECT_TRUE(run.has_last_loss() && std::isnan(run.last_loss()));
  EXPECT_EQ(run.model().layers_size(), 2);
  EXPECT_EQ(run.labels().at("owner"), "me");
  EXPECT_EQ(run.unmonitored(0).reason(), "dropout");
  EXPECT_EQ(run.firing_criticals(), 1u);
  ASSERT_EQ(run.attempts_size(), 1);
  EXPECT_EQ(run.attempts(0).sources(0).incarnation(), hello.incarnation);
  EXPECT_EQ(run.attempts(0).sources(0).durable_seq(), 2u);

  history_.clock().Advance(std::chrono::minutes(5));
  grpc::ClientContext context2;
  v1::ListRunsReply list;
  v1::ListRunsRequest prefix;
  prefix.set_name_prefix("team/");
  ASSERT_TRUE(stub_->ListRuns(&context2, prefix, &list).ok());
  ASSERT_EQ(list.runs_size(), 1);
  EXPECT_EQ(list.runs(0).state(), v1::RUN_STATE_SILENT);

  grpc::ClientContext context3;
  request.set_run("nobody");
  EXPECT_EQ(stub_->GetRun(&context3, request, &run).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(QueryServiceTest, SeriesComeBackBitForBit) {
  const auto source = history_.Hello("run");
  for (int64_t step = 0; step < 600; ++step) {
    auto series =
        Heads(kTiedRowFraction, 1, {std::bit_cast<float>(0x3e000001u), kNan, -kInf, 0}, {3, 4, 5, 6});
    series.present = {1, 1, 1, 0};
    history_.Put(source, Step(step, {Scalar(kLoss, 1.0f), series, Heads(kWqSigma1, 0, {1, 2, 3, 4})}));
  }
  grpc::Status status;
  auto request = Ask("tied_row_fraction");
  auto points = Read(request, &status);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(points.size(), 600u) << "in several pieces";
  const v1::Series& s = points[599].series();
  EXPECT_EQ(s.layer(), 1u);
  EXPECT_EQ(s.head_count(), 4u);
  ASSERT_EQ(s.values_size(), 3);
  EXPECT_EQ(std::bit_cast<uint32_t>(s.values(0)), 0x3e000001u);
  EXPECT_TRUE(std::isnan(s.values(1)));
  EXPECT_EQ(s.values(2), -kInf);
  EXPECT_EQ(s.weights_size(), 3);
  EXPECT_EQ(s.presence(), "\x07");

  request = Ask("wq_sigma1");
  request.set_layer(0);
  request.add_heads(2);
  request.set_from_step(100);
  request.set_to_step(199);
  points = Read(request, &status);
  ASSERT_EQ(points.size(), 100u);
  EXPECT_EQ(points[0].step(), 100);
  ASSERT_EQ(points[0].series().values_size(), 1);
  EXPECT_EQ(points[0].series().values(0), 3);
  EXPECT_EQ(points[0].series().first_head(), 2u);

  request = Ask("loss");
  request.set_max_points(10);
  points = Read(request, &status);
  EXPECT_LE(points.size(), 11u);
  EXPECT_EQ(points.back().step(), 599) << "the last one is always there";
}

TEST_F(QueryServiceTest, BadQuestionsNameTheirField) {
  history_.Put(history_.Hello("run"), Loss(0, 1));
  const auto invalid = grpc::StatusCode::INVALID_ARGUMENT;
  auto request = Ask("losss");
  EXPECT_EQ(Refused(request).error_code(), invalid);
  EXPECT_NE(Refused(request).error_message().find("signal"), std::string::npos);
  request = Ask("loss");
  request.set_layer(1);
  EXPECT_EQ(Refused(request).error_code(), invalid);
  request = Ask("loss");
  request.set_from_step(10);
  request.set_to_step(5);
  EXPECT_EQ(Refused(request).error_code(), invalid);
  request = Ask("loss");
  request.set_run("");
  EXPECT_EQ(Refused(request).error_code(), invalid);
  request = Ask("loss");
  request.set_attempt("9");
  EXPECT_EQ(Refused(request).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::ReadStepRequest step;
  step.set_run("run");
  step.set_step(-2);
  v1::StepReply reply;
  grpc::ClientContext context;
  EXPECT_EQ(stub_->ReadStep(&context, step, &reply).error_code(), invalid);
}

TEST_F(QueryServiceTest, AStepIsItselfOrTheLastBeforeIt) {
  const auto source = history_.Hello("run");
  history_.Put(source, Step(10, {Scalar(kLoss, 1), Heads(kLogitMax, 0, {5, 6, 7, 8}, {100})}));
  history_.Put(source, Loss(11, 2));
  v1::ReadStepRequest request;
  request.set_run("run");
  request.set_step(11);
  request.add_signals("logit_max");
  v1::StepReply reply;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->ReadStep(&context, request, &reply).ok());
  }
  EXPECT_EQ(reply.step(), 10);
  EXPECT_EQ(reply.attempt(), "1");
  ASSERT_EQ(reply.frame().series_size(), 1);
  EXPECT_EQ(reply.frame().series(0).weights_size(), 1);
  request.set_exact(true);
  {
    grpc::ClientContext context;
    EXPECT_EQ(stub_->ReadStep(&context, request, &reply).error_code(), grpc::StatusCode::NOT_FOUND);
  }
  request.Clear();
  request.set_run("run");
  request.set_step(-1);
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->ReadStep(&context, request, &reply).ok());
  EXPECT_EQ(reply.step(), 11);
}

TEST_F(QueryServiceTest, AlertsAndEvents) {
  const auto source = history_.Hello("run");
  history_.Checkpoint(source, 3);
  history_.Put(source, Loss(4, kNan));
  alerts_->Flush();
  v1::ListAlertsRequest request;
  request.set_run("run");
  v1::ListAlertsReply reply;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->ListAlerts(&context, request, &reply).ok());
  }
  ASSERT_EQ(reply.alerts_size(), 1);
  EXPECT_EQ(reply.alerts(0).rule(), "non_finite");
  EXPECT_EQ(reply.alerts(0).severity(), v1::SEVERITY_CRITICAL);
  EXPECT_EQ(reply.alerts(0).last_checkpoint_step(), 3);
  EXPECT_FALSE(reply.alerts(0).has_layer());
  EXPECT_FALSE(reply.alerts(0).advice().empty());
  v1::ListEventsRequest events;
  events.set_run("run");
  v1::ListEventsReply list;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->ListEvents(&context, events, &list).ok());
  ASSERT_EQ(list.events_size(), 1);
  EXPECT_EQ(list.events(0).kind(), v1::EVENT_KIND_CHECKPOINT);
  EXPECT_EQ(list.events(0).detail(), "ckpt/3");
}

TEST_F(QueryServiceTest, WatchTellsTheRunAsItGoesAndEndsWithIt) {
  const auto source = history_.Hello("run");
  history_.Put(source, Loss(1, 4));
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_run("run");
  auto reader = stub_->Watch(&context, request);
  v1::WatchUpdate update;
  ASSERT_TRUE(reader->Read(&update));
  EXPECT_EQ(update.state(), v1::RUN_STATE_RUNNING);
  history_.Put(source, Step(2, {Scalar(kLoss, kNan), Scalar(kTokens, 5), Scalar(kGradNorm, 1)}));
  history_.Checkpoint(source, 2);
  history_.Goodbye(source, 2);
  int steps = 0, alerts = 0, events = 0;
  v1::RunState last = v1::RUN_STATE_UNSPECIFIED;
  while (reader->Read(&update)) {
    if (update.has_step()) {
      ++steps;
      EXPECT_EQ(update.step().frame().series_size(), 2) << "loss and grad_norm";
    }
    alerts += update.has_alert();
    events += update.has_event();
    if (update.update_case() == v1::WatchUpdate::kState) last = update.state();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(alerts, 2) << "firing, and resolved by the end of the run";
  EXPECT_EQ(events, 1);
  EXPECT_EQ(last, v1::RUN_STATE_FINISHED);
}

TEST_F(QueryServiceTest, WatchOfNobodyAndOfNoSignalIsRefused) {
  v1::WatchUpdate update;
  v1::WatchRequest request;
  request.set_run("nobody");
  grpc::ClientContext context;
  auto reader = stub_->Watch(&context, request);
  EXPECT_FALSE(reader->Read(&update));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
  request.add_signals("nothing");
  grpc::ClientContext context2;
  reader = stub_->Watch(&context2, request);
  EXPECT_FALSE(reader->Read(&update));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(QueryServiceTest, ReportsComeInPieces) {
  v1::ReportRequest request;
  request.add_runs("run");
  grpc::ClientContext context;
  auto reader = stub_->Report(&context, request);
  v1::ReportChunk chunk;
  size_t bytes = 0, pieces = 0;
  while (reader->Read(&chunk)) bytes += chunk.html().size(), ++pieces;
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(bytes, 600'000u);
  EXPECT_GT(pieces, 1u);
}

TEST_F(QueryServiceTest, StatusHasHealthAndCounters) {
  history_.Put(history_.Hello("run"), Loss(1, 1));
  alerts_->Flush();
  grpc::ClientContext context;
  v1::ServerStatus status;
  ASSERT_TRUE(stub_->GetStatus(&context, {}, &status).ok());
  EXPECT_EQ(status.health(), "ok");
  EXPECT_FALSE(status.version().empty());
  EXPECT_EQ(status.data_folder(), history_.folder());
  EXPECT_EQ(status.counters().at("ingest_frames"), 7u);
  EXPECT_EQ(status.counters().at("alert_steps_judged"), 1u);
}

}  // namespace
}  // namespace foreshock::query
