// Silences, acknowledgements and the audit trail over gRPC, as the command line asks for them.
#include "foreshock/server/control/silence_api.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <limits>

#include "foreshock/rpc/server.h"
#include "foreshock/rpc/services.h"
#include "foreshock/server/control/control_service.h"
#include "foreshock/tests/history.h"

namespace foreshock::control {
namespace {

using grpc::StatusCode;

class Unconnected final : public ingest::Outbox {
 public:
  void PutAction(const std::string&, const std::string&, const wire::Action&) override {}
  void PutProposal(const std::string&, const std::string&, const wire::Action&) override {}
  void WithdrawAction(const std::string&, const std::string&, const std::string&) override {}
  void SetSampling(const std::string&, const std::string&, const wire::Sampling&) override {}
  size_t Connected(const std::string&, const std::string&) const override { return 0; }
};

class SilenceApiTest : public testing::Test {
 protected:
  SilenceApiTest() {
    alert::AlertOptions options;
    options.tick_interval = std::chrono::hours(1);
    alerts_ = *alert::AlertService::Start(options, &history_.store(), &history_.clock());
    audit_ = *alert::AuditLog::Open(&history_.store(), &history_.clock());
    silences_ = *alert::Silences::Start({&history_.store(), alerts_.get(), audit_.get(), &history_.clock()});
    api_ = std::make_unique<SilenceApi>(silences_.get(), audit_.get(), &history_.clock());
    controls_ = *Controls::Start({.store = &history_.store(),
                                  .outbox = &unconnected_,
                                  .clock = &history_.clock(),
                                  .audit = audit_.get(),
                                  .seed = 1});
    upkeep::UpkeepOptions upkeep;
    upkeep.store = &history_.store();
    upkeep.clock = &history_.clock();
    upkeep_ = upkeep::Upkeep::Start(upkeep);
    service_ = ControlService::Create(controls_.get(), upkeep_.get(), api_.get());
    server_ = *rpc::Server::Start({}, nullptr, {service_->service()});
    stub_ = v1::Control::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                                     grpc::InsecureChannelCredentials()));
  }
  ~SilenceApiTest() override { server_->Stop(100); }

  StatusCode Create(const v1::CreateSilenceRequest& request, v1::Silence* made) {
    grpc::ClientContext context;
    return stub_->CreateSilence(&context, request, made).error_code();
  }
  v1::ListSilencesReply List(bool expired = false, const std::string& run = "") {
    grpc::ClientContext context;
    v1::ListSilencesRequest request;
    request.set_with_expired(expired);
    request.set_run(run);
    v1::ListSilencesReply reply;
    EXPECT_TRUE(stub_->ListSilences(&context, request, &reply).ok());
    return reply;
  }
  std::vector<std::string> Trail() {
    grpc::ClientContext context;
    v1::ListAuditReply reply;
    EXPECT_TRUE(stub_->ListAudit(&context, {}, &reply).ok());
    std::vector<std::string> lines;
    for (const v1::AuditEntry& e : reply.entries()) lines.push_back(e.who() + " " + e.what());
    return lines;
  }

  tests::History history_;
  Unconnected unconnected_;
  std::unique_ptr<alert::AlertService> alerts_;
  std::unique_ptr<alert::AuditLog> audit_;
  std::unique_ptr<alert::Silences> silences_;
  std::unique_ptr<SilenceApi> api_;
  std::unique_ptr<Controls> controls_;
  std::unique_ptr<upkeep::Upkeep> upkeep_;
  std::unique_ptr<ControlService> service_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<v1::Control::Stub> stub_;
};

TEST_F(SilenceApiTest, CreatesListsAndExpires) {
  v1::CreateSilenceRequest request;
  request.mutable_silence()->set_run("gpt-*");
  request.mutable_silence()->set_severity(v1::SEVERITY_WARNING);
  request.mutable_silence()->set_layer(3);
  request.mutable_silence()->set_author("ada");
  request.set_seconds(60);
  v1::Silence made;
  ASSERT_EQ(Create(request, &made), StatusCode::OK);
  EXPECT_EQ(made.state(), v1::SILENCE_STATE_ACTIVE);
  EXPECT_EQ(made.kind(), v1::SILENCE_KIND_SILENCE);
  EXPECT_EQ(made.severity(), v1::SEVERITY_WARNING);
  EXPECT_EQ(made.ends_unix_ns() - made.starts_unix_ns(), 60'000'000'000u);
  EXPECT_EQ(List().silences_size(), 1);
  EXPECT_EQ(List(false, "gpt-7").silences_size(), 1);
  EXPECT_EQ(List(false, "bert").silences_size(), 0);
  v1::ExpireSilenceRequest expire;
  expire.set_id(made.id());
  expire.set_author("bob");
  grpc::ClientContext context, again;
  ASSERT_TRUE(stub_->ExpireSilence(&context, expire, &made).ok());
  EXPECT_EQ(made.state(), v1::SILENCE_STATE_EXPIRED);
  EXPECT_EQ(made.ended_by(), "bob");
  EXPECT_EQ(List().silences_size(), 0);
  EXPECT_EQ(List(true).silences_size(), 1);
  expire.set_id("nothing");
  EXPECT_EQ(stub_->ExpireSilence(&again, expire, &made).error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(Trail(), (std::vector<std::string>{"bob silence_expired", "ada silence_created"}));
}

TEST_F(SilenceApiTest, BadRequestsAreRefused) {
  v1::Silence made;
  v1::CreateSilenceRequest request;
  EXPECT_EQ(Create(request, &made), StatusCode::INVALID_ARGUMENT) << "covers nothing";
  request.mutable_silence()->set_run("r");
  EXPECT_EQ(Create(request, &made), StatusCode::INVALID_ARGUMENT) << "has no end";
  for (const double seconds : {-1.0, 1e12, std::numeric_limits<double>::quiet_NaN()}) {
    request.set_seconds(seconds);
    EXPECT_EQ(Create(request, &made), StatusCode::INVALID_ARGUMENT) << seconds;
  }
  request.set_seconds(60);
  request.mutable_silence()->set_layer(4'000'000'000u);
  EXPECT_EQ(Create(request, &made), StatusCode::INVALID_ARGUMENT);
  request.mutable_silence()->clear_layer();
  request.mutable_silence()->set_starts_unix_ns(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Create(request, &made), StatusCode::INVALID_ARGUMENT);
  request.mutable_silence()->set_starts_unix_ns(std::numeric_limits<int64_t>::max() - 5);
  EXPECT_EQ(Create(request, &made), StatusCode::INVALID_ARGUMENT);
}

TEST_F(SilenceApiTest, AcknowledgesWhatFires) {
  grpc::ClientContext before, then;
  v1::AcknowledgeRequest request;
  request.set_run("run");
  request.set_author("ada");
  v1::ListSilencesReply reply;
  EXPECT_EQ(stub_->Acknowledge(&before, request, &reply).error_code(), StatusCode::NOT_FOUND);
  history_.Put(history_.Hello("run"), tests::Loss(1, std::numeric_limits<float>::quiet_NaN()));
  alerts_->Flush();
  ASSERT_TRUE(stub_->Acknowledge(&then, request, &reply).ok());
  ASSERT_EQ(reply.silences_size(), 1);
  EXPECT_EQ(reply.silences(0).kind(), v1::SILENCE_KIND_ACKNOWLEDGEMENT);
  EXPECT_EQ(reply.silences(0).alert(), "run/1/non_finite/critical/1");
}

TEST_F(SilenceApiTest, ActionsAreOnTheTrail) {
  history_.Hello("run");
  v1::ActRequest act;
  act.set_run("run");
  act.set_kind("checkpoint");
  act.set_issuer("ada");
  grpc::ClientContext context, bad;
  v1::ActReply reply;
  ASSERT_TRUE(stub_->Act(&context, act, &reply).ok());
  EXPECT_EQ(controls_->ActByRule("mine", act).status().code(), Code::kPermissionDenied);
  act.set_kind("nonsense");
  EXPECT_FALSE(stub_->Act(&bad, act, &reply).ok());
  EXPECT_EQ(Trail(), (std::vector<std::string>{"rule:mine action_refused", "ada action_proposed"}));
}

}  // namespace
}  // namespace foreshock::control
