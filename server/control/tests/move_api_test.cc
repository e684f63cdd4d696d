// Runs out of and into a server over gRPC, where callers keep still.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "foreshock/rpc/server.h"
#include "foreshock/rpc/services.h"
#include "foreshock/server/control/control_service.h"
#include "foreshock/tests/history.h"

namespace foreshock::control {
namespace {

class NoOutbox final : public ingest::Outbox {
 public:
  void PutAction(const std::string&, const std::string&, const wire::Action&) override {}
  void PutProposal(const std::string&, const std::string&, const wire::Action&) override {}
  void WithdrawAction(const std::string&, const std::string&, const std::string&) override {}
  void SetSampling(const std::string&, const std::string&, const wire::Sampling&) override {}
  size_t Connected(const std::string&, const std::string&) const override { return 0; }
};

// One place for imports and exports.
class MoveApiTest : public testing::Test {
 protected:
  MoveApiTest() {
    alert::AlertOptions options;
    options.tick_interval = std::chrono::hours(1);
    alerts_ = *alert::AlertService::Start(options, &history_.store(), &history_.clock());
    audit_ = *alert::AuditLog::Open(&history_.store(), &history_.clock());
    silences_ = *alert::Silences::Start({&history_.store(), alerts_.get(), audit_.get(), &history_.clock()});
    api_ = std::make_unique<SilenceApi>(silences_.get(), audit_.get(), &history_.clock());
    controls_ = *Controls::Start({.store = &history_.store(),
                                  .outbox = &outbox_,
                                  .clock = &history_.clock(),
                                  .audit = audit_.get(),
                                  .seed = 1});
    upkeep::UpkeepOptions upkeep;
    upkeep.store = &history_.store();
    upkeep.clock = &history_.clock();
    upkeep_ = upkeep::Upkeep::Start(upkeep);
    mover_ = move::RunMover::Create({.store = &history_.store(),
                                     .silences = silences_.get(),
                                     .audit = audit_.get(),
                                     .clock = &history_.clock(),
                                     .made_by = "test",
                                     .most_at_once = 1});
    const store::SourceId source = history_.Hello(tests::SmallHello("run"));
    for (int64_t step = 0; step < 200; ++step) history_.Put(source, tests::Loss(step, 4));
  }
  ~MoveApiTest() override { server_->Stop(100); }

  void Serve(std::chrono::milliseconds patience) {
    service_ =
        ControlService::Create(controls_.get(), upkeep_.get(), api_.get(), nullptr, mover_.get(), patience);
    server_ = *rpc::Server::Start({}, nullptr, {service_->service()});
    stub_ = v1::Control::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                                     grpc::InsecureChannelCredentials()));
  }

  // Asked again while the only place is taken.
  std::string Export() {
    for (;;) {
      grpc::ClientContext context;
      v1::ExportRunRequest request;
      request.set_run("run");
      const auto reader = stub_->ExportRun(&context, request);
      std::string archive;
      v1::ExportRunReply piece;
      while (reader->Read(&piece)) archive += piece.archive();
      const grpc::Status status = reader->Finish();
      if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) continue;
      EXPECT_TRUE(status.ok()) << status.error_message();
      return archive;
    }
  }

  tests::History history_;
  NoOutbox outbox_;
  std::unique_ptr<alert::AlertService> alerts_;
  std::unique_ptr<alert::AuditLog> audit_;
  std::unique_ptr<alert::Silences> silences_;
  std::unique_ptr<SilenceApi> api_;
  std::unique_ptr<Controls> controls_;
  std::unique_ptr<upkeep::Upkeep> upkeep_;
  std::unique_ptr<move::RunMover> mover_;
  std::unique_ptr<ControlService> service_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<v1::Control::Stub> stub_;
};

TEST_F(MoveApiTest, AnImportThatKeepsStillGivesItsPlaceBack) {
  Serve(std::chrono::milliseconds(100));
  const std::string archive = Export();
  ASSERT_GT(archive.size(), 1000u);
  grpc::ClientContext context;
  v1::ImportRunReply reply;
  const auto writer = stub_->ImportRun(&context, &reply);
  v1::ImportRunRequest piece;
  piece.set_archive(archive.substr(0, archive.size() / 2));
  ASSERT_TRUE(writer->Write(piece));
  // Nothing more comes, and the stream stays open.
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_FALSE(Export().empty()) << "the only place is free";
  EXPECT_EQ(mover_->counters().failures, 1u);
}

TEST_F(MoveApiTest, AnImportThatSaysNothingEnds) {
  Serve(std::chrono::milliseconds(100));
  grpc::ClientContext context;
  v1::ImportRunReply reply;
  EXPECT_EQ(stub_->ImportRun(&context, &reply)->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(MoveApiTest, WhoKeepsSendingIsNotEnded) {
  Serve(std::chrono::minutes(1));
  const std::string archive = Export();
  grpc::ClientContext context;
  v1::ImportRunReply reply;
  const auto writer = stub_->ImportRun(&context, &reply);
  v1::ImportRunRequest piece;
  for (size_t at = 0; at < archive.size(); at += 512) {
    piece.set_archive(archive.substr(at, 512));
    ASSERT_TRUE(writer->Write(piece)) << at;
  }
  ASSERT_TRUE(writer->WritesDone());
  const grpc::Status status = writer->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(reply.known().frames(), 200u);
}

}  // namespace
}  // namespace foreshock::control
