// The whole server with certificates and tokens.
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "foreshock/rpc/grpc_channel.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/rpc/services.h"
#include "foreshock/server/app/app.h"
#include "foreshock/server/auth/tokens_file.h"
#include "foreshock/server/http/client.h"
#include "foreshock/tests/certificates.h"
#include "foreshock/tests/history.h"

namespace foreshock::app {
namespace {

using wire::RecordType;

class SecurityTest : public testing::Test {
 protected:
  SecurityTest() : ca_(folder_.path(), "ca"), other_ca_(folder_.path(), "other-ca") {
    ::setenv("GRPC_VERBOSITY", "NONE", 0);
    ca_.Issue("server");
    ca_.Issue("client", {.common_name = "node-7", .names = {}});
    options_.data_folder = folder_.path() + "/data";
    options_.grpc_address = options_.http_address = "127.0.0.1:0";
  }

  void UseTls() {
    options_.tls_cert_file = ca_.cert_file("server");
    options_.tls_key_file = ca_.key_file("server");
  }

  std::string Token(const std::string& name, const std::string& scopes, const std::string& run = "") {
    options_.tokens_file = folder_.path() + "/tokens";
    auth::Token token;
    token.name = name;
    token.scopes = *auth::ParseScopes(scopes);
    token.runs = {run};
    const auto made = auth::CreateToken(options_.tokens_file, token, SystemClock::Instance());
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return made.ok() ? made->secret : "";
  }

  void Start() {
    auto app = App::New(options_);
    ASSERT_TRUE(app.ok()) << app.status().ToString();
    app_ = *std::move(app);
    const Status started = app_->Start();
    ASSERT_TRUE(started.ok()) << started.ToString();
  }

  std::shared_ptr<rpc::Channel> Channel(const std::string& token) {
    rpc::ChannelOptions options;
    options.address = "127.0.0.1:" + std::to_string(app_->grpc_port());
    options.token = token;
    if (!options_.tls_cert_file.empty()) options.ca_file = ca_.ca_file();
    if (!options_.tls_client_ca_file.empty()) {
      options.cert_file = ca_.cert_file("client");
      options.key_file = ca_.key_file("client");
    }
    auto channel = rpc::Channel::Create(options);
    EXPECT_TRUE(channel.ok()) << channel.status().ToString();
    return *std::move(channel);
  }

  static Status Greet(rpc::IngestStream& stream, const std::string& run) {
    stream.Write(RecordType::kHello, wire::Encode(tests::SmallHello(run))).IgnoreError();
    FS_ASSIGN_OR_RETURN(const auto reply, stream.Read());
    return reply && reply->hello ? OkStatus() : Status(Code::kUnavailable, "no answer to Hello");
  }
  Status Write(const std::string& token, const std::string& run) {
    FS_ASSIGN_OR_RETURN(const auto stream, rpc::OpenIngestStream(Channel(token), std::chrono::seconds(20)));
    return Greet(*stream, run);
  }

  // Any method, with an empty message.
  grpc::Status Call(const std::string& method, const std::string& token) {
    const auto channel = Channel(token);
    grpc::GenericStub stub(rpc::GrpcChannel(*channel));
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    grpc::ByteBuffer request, reply;
    grpc::Slice empty;
    request = grpc::ByteBuffer(&empty, 1);
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &reply,
                   [&done](grpc::Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }

  http::ClientResponse Get(const std::string& path, const std::string& token = "") {
    http::ClientOptions options;
    options.ca_file = ca_.ca_file();
    options.cert_file = client_cert_;
    options.key_file = client_key_;
    if (!token.empty()) options.headers["Authorization"] = "Bearer " + token;
    const std::string scheme = options_.tls_cert_file.empty() ? "http" : "https";
    const auto got = http::Get(scheme + "://127.0.0.1:" + std::to_string(app_->http_port()) + path, options);
    return got.ok() ? *got : http::ClientResponse{};
  }

  tests::TempFolder folder_;
  tests::Authority ca_, other_ca_;
  AppOptions options_;
  std::string client_cert_, client_key_;
  std::unique_ptr<App> app_;
};

TEST_F(SecurityTest, BeyondLoopbackNeedsTlsAndTokens) {
  options_.grpc_address = options_.http_address = "0.0.0.0:0";
  EXPECT_EQ(App::New(options_).status().code(), Code::kFailedPrecondition);
  UseTls();
  EXPECT_NE(App::New(options_).status().message().find("which needs tokens"), std::string::npos);
  const std::string secret = Token("t", "write,read");
  options_.http_tls = false;
  EXPECT_NE(App::New(options_).status().message().find("http_address"), std::string::npos);
  options_.http_tls = true;
  Start();
  EXPECT_TRUE(Write(secret, "run").ok());
  EXPECT_EQ(Get("/api/v1/runs", secret).code, 200);
}

TEST_F(SecurityTest, MistakesInTheOptionsAreNamed) {
  options_.tls_cert_file = ca_.cert_file("server");
  EXPECT_NE(App::New(options_).status().message().find("one of them is missing"), std::string::npos);
  options_.tls_cert_file.clear();
  options_.tls_client_ca_file = ca_.ca_file();
  EXPECT_NE(App::New(options_).status().message().find("tls_cert_file: missing"), std::string::npos);
  options_.tls_client_ca_file.clear();
  options_.max_streams = 0;
  EXPECT_EQ(App::New(options_).status().message(), "max_streams: 0, must be 1 to 1000000");
  options_.max_streams = 10;
  options_.tokens_file = folder_.path() + "/absent";
  auto app = App::New(options_);
  ASSERT_TRUE(app.ok());
  EXPECT_EQ((*app)->Start().code(), Code::kNotFound);
}

// Whatever is added to the services later: it needs a token.
TEST_F(SecurityTest, EveryMethodOfEveryServiceIsGuarded) {
  const std::string writer = Token("writer", "write");
  UseTls();
  Start();
  int methods = 0;
  for (const google::protobuf::FileDescriptor* file :
       {v1::ListRunsRequest::descriptor()->file(), v1::ActRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m, ++methods) {
        const std::string path =
            "/" + file->service(s)->full_name() + "/" + file->service(s)->method(m)->name();
        for (const std::string& token : {std::string(), std::string("fsk_guess"), writer}) {
          EXPECT_EQ(Call(path, token).error_code(), grpc::StatusCode::PERMISSION_DENIED) << path;
        }
      }
    }
  }
  EXPECT_GE(methods, 12);
}

TEST_F(SecurityTest, APrefixShowsItsRunsAlone) {
  const std::string agents = Token("agents", "write"), ana = Token("ana", "read", "team-a/");
  UseTls();
  Start();
  ASSERT_TRUE(Write(agents, "team-a/x").ok());
  ASSERT_TRUE(Write(agents, "team-b/y").ok());
  const http::ClientResponse runs = Get("/api/v1/runs", ana);
  EXPECT_EQ(runs.code, 200);
  EXPECT_NE(runs.body.find("team-a/x"), std::string::npos);
  EXPECT_EQ(runs.body.find("team-b/y"), std::string::npos);
  EXPECT_EQ(Get("/api/v1/runs/team-b%2Fy", ana).code, 403);
  EXPECT_EQ(Get("/metrics", ana).code, 403);
  const auto query = v1::Query::NewStub(rpc::GrpcChannel(*Channel(ana)));
  const auto ask = [&](auto method, const auto& request, auto* reply) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + ana);
    return (query.get()->*method)(&context, request, reply);
  };
  v1::ListRunsReply listed;
  ASSERT_TRUE(ask(&v1::Query::Stub::ListRuns, v1::ListRunsRequest(), &listed).ok());
  ASSERT_EQ(listed.runs_size(), 1);
  EXPECT_EQ(listed.runs(0).run(), "team-a/x");
  v1::GetRunRequest other;
  other.set_run("team-b/y");
  v1::Run run;
  EXPECT_EQ(ask(&v1::Query::Stub::GetRun, other, &run).error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(SecurityTest, TheControlTokenGuardsGrpcToo) {
  options_.control_token_file = folder_.path() + "/control";
  const std::string secret = "sixteen-bytes-or-more";
  std::ofstream(options_.control_token_file) << secret << "\n";
  Start();
  ASSERT_TRUE(Write("", "run").ok());
  EXPECT_EQ(Call("/foreshock.v1.Control/Act", "").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Call("/foreshock.v1.Control/SetSampling", "other").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  // Let in, and then told what is wrong with an empty request.
  EXPECT_NE(Call("/foreshock.v1.Control/Act", secret).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Call("/foreshock.v1.Query/ListRuns", "").error_code(), grpc::StatusCode::OK)
      << "reading needs none";
}

TEST_F(SecurityTest, ARevokedTokenIsForgottenByItself) {
  const std::string secret = Token("gone", "write,read");
  UseTls();
  Start();
  ASSERT_EQ(Get("/api/v1/runs", secret).code, 200);
  ASSERT_TRUE(auth::RevokeToken(options_.tokens_file, "gone").ok());
  int code = 200;
  for (int i = 0; i < 3000 && code == 200; ++i) {  // looked at every second
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    code = Get("/api/v1/runs", secret).code;
  }
  EXPECT_EQ(code, 401);
}

TEST_F(SecurityTest, CertificatesOfBothPortsChangeWhileAStreamRuns) {
  const std::string secret = Token("agents", "write,read");
  UseTls();
  options_.tls_client_ca_file = ca_.ca_file();
  options_.http_client_ca_file = ca_.ca_file();
  client_cert_ = ca_.cert_file("client");
  client_key_ = ca_.key_file("client");
  Start();
  auto stream = rpc::OpenIngestStream(Channel(secret), std::chrono::seconds(20));
  ASSERT_TRUE(stream.ok()) << stream.status().ToString();
  ASSERT_TRUE(Greet(**stream, "run").ok());
  ASSERT_EQ(Get("/api/v1/runs", secret).code, 200);
  // A certificate for another name: whoever connects anew notices.
  ca_.Issue("server", {.common_name = "elsewhere", .names = {"DNS:elsewhere.example"}});
  ASSERT_TRUE(app_->ReloadSecurity().ok());
  EXPECT_EQ(Get("/api/v1/runs", secret).code, 0);
  Status fresh = OkStatus();
  uint64_t seq = 0;
  while (fresh.ok()) {  // gRPC looks every second
    wire::Frame frame = tests::Loss(static_cast<int64_t>(++seq), 1);
    frame.seq = seq;
    ASSERT_TRUE((*stream)->Write(RecordType::kFrame, wire::Encode(frame)).ok()) << "the stream was dropped";
    const auto reply = (*stream)->Read();
    ASSERT_TRUE(reply.ok() && reply->has_value()) << "the stream was dropped";
    rpc::ChannelOptions options = Channel(secret)->options();
    const auto channel = rpc::Channel::Create(options);
    fresh = rpc::OpenIngestStream(*channel, std::chrono::seconds(3)).status();
  }
  EXPECT_EQ(fresh.code(), Code::kPermissionDenied) << fresh.ToString();
  // A key that does not fit: the last good one stays, and health does not suffer.
  std::filesystem::copy_file(ca_.key_file("client"), ca_.key_file("server"),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(app_->ReloadSecurity().code(), Code::kInvalidArgument);
  EXPECT_TRUE(app_->health().ok());
}

TEST_F(SecurityTest, SecretsAreNeverLoggedOrShown) {
  options_.control_token_file = folder_.path() + "/control";
  const std::string control = "control-token-of-the-test";
  std::ofstream(options_.control_token_file) << control << "\n";
  options_.log_level = LogLevel::kDebug;
  const std::string good = Token("good", "write,read"), narrow = Token("narrow", "write", "team-a/");
  UseTls();
  SetLogLevel(LogLevel::kDebug);
  testing::internal::CaptureStderr();
  Start();
  EXPECT_TRUE(Write(good, "run").ok());
  EXPECT_FALSE(Write(narrow, "run").ok());
  EXPECT_FALSE(Write("fsk_a-wrong-secret", "run").ok());
  std::string shown =
      Get("/metrics", good).body + Get("/api/v1/status", good).body + Get("/api/v1/runs", narrow).body;
  EXPECT_EQ(Get("/api/v1/status", "fsk_a-wrong-secret").code, 401);
  EXPECT_EQ(Get("/api/v1/status", control).code, 200);
  EXPECT_TRUE(app_->ReloadSecurity().ok());
  std::ofstream(options_.tokens_file, std::ios::app) << good << "\n";  // pasted into the wrong file
  EXPECT_FALSE(app_->ReloadSecurity().ok());
  app_->Stop();
  shown += testing::internal::GetCapturedStderr();
  SetLogLevel(LogLevel::kInfo);
  EXPECT_NE(shown.find("refused a stream"), std::string::npos) << "the log was looked at";
  EXPECT_NE(shown.find("foreshock_auth_unknown_token_total"), std::string::npos);
  for (const std::string& secret : {good, narrow, control, std::string("fsk_a-wrong-secret")}) {
    EXPECT_EQ(shown.find(secret), std::string::npos);
  }
}

}  // namespace
}  // namespace foreshock::app
