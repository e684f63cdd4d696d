#include "foreshock/cli/client.h"

#include <grpcpp/client_context.h>

#include <charconv>
#include <chrono>

#include "foreshock/rpc/grpc_channel.h"
#include "foreshock/rpc/ingest_client.h"
#include "foreshock/rpc/services.h"
#include "foreshock/rpc/status.h"
#include "send_recording.h"

namespace foreshock::cli {
namespace {

class GrpcClient final : public Client {
 public:
  GrpcClient(ClientOptions options, std::shared_ptr<rpc::Channel> channel)
      : options_(std::move(options)),
        channel_(std::move(channel)),
        query_(v1::Query::NewStub(rpc::GrpcChannel(*channel_))),
        control_(v1::Control::NewStub(rpc::GrpcChannel(*channel_))) {}

  Result<v1::ListRunsReply> ListRuns(const v1::ListRunsRequest& request) override {
    return Call<v1::ListRunsReply>(
        [&](grpc::ClientContext* context, auto* reply) { return query_->ListRuns(context, request, reply); });
  }
  Result<v1::Run> GetRun(const std::string& run) override {
    v1::GetRunRequest request;
    request.set_run(run);
    return Call<v1::Run>(
        [&](grpc::ClientContext* context, auto* reply) { return query_->GetRun(context, request, reply); });
  }
  Result<v1::StepReply> ReadStep(const v1::ReadStepRequest& request) override {
    return Call<v1::StepReply>(
        [&](grpc::ClientContext* context, auto* reply) { return query_->ReadStep(context, request, reply); });
  }
  Result<v1::ListAlertsReply> ListAlerts(const v1::ListAlertsRequest& request) override {
    return Call<v1::ListAlertsReply>([&](grpc::ClientContext* context, auto* reply) {
      return query_->ListAlerts(context, request, reply);
    });
  }
  Result<v1::ListEventsReply> ListEvents(const v1::ListEventsRequest& request) override {
    return Call<v1::ListEventsReply>([&](grpc::ClientContext* context, auto* reply) {
      return query_->ListEvents(context, request, reply);
    });
  }
  Result<v1::ServerStatus> GetStatus() override {
    return Call<v1::ServerStatus>([&](grpc::ClientContext* context, auto* reply) {
      return query_->GetStatus(context, v1::GetStatusRequest(), reply);
    });
  }
  Result<v1::ActReply> Act(const v1::ActRequest& request) override {
    return Call<v1::ActReply>(
        [&](grpc::ClientContext* context, auto* reply) { return control_->Act(context, request, reply); });
  }
  Result<v1::ListActionsReply> ListActions(const std::string& run) override {
    v1::ListActionsRequest request;
    request.set_run(run);
    return Call<v1::ListActionsReply>([&](grpc::ClientContext* context, auto* reply) {
      return control_->ListActions(context, request, reply);
    });
  }
  Result<v1::Silence> CreateSilence(const v1::CreateSilenceRequest& request) override {
    return Call<v1::Silence>([&](grpc::ClientContext* context, auto* reply) {
      return control_->CreateSilence(context, request, reply);
    });
  }
  Result<v1::ListSilencesReply> Acknowledge(const v1::AcknowledgeRequest& request) override {
    return Call<v1::ListSilencesReply>([&](grpc::ClientContext* context, auto* reply) {
      return control_->Acknowledge(context, request, reply);
    });
  }
  Result<v1::ListSilencesReply> ListSilences(const v1::ListSilencesRequest& request) override {
    return Call<v1::ListSilencesReply>([&](grpc::ClientContext* context, auto* reply) {
      return control_->ListSilences(context, request, reply);
    });
  }
  Result<v1::Silence> ExpireSilence(const v1::ExpireSilenceRequest& request) override {
    return Call<v1::Silence>([&](grpc::ClientContext* context, auto* reply) {
      return control_->ExpireSilence(context, request, reply);
    });
  }
  Result<v1::ListAuditReply> ListAudit(const v1::ListAuditRequest& request) override {
    return Call<v1::ListAuditReply>([&](grpc::ClientContext* context, auto* reply) {
      return control_->ListAudit(context, request, reply);
    });
  }

  Result<v1::DeleteRunReply> DeleteRun(const v1::DeleteRunRequest& request) override {
    return Call<v1::DeleteRunReply>([&](grpc::ClientContext* context, auto* reply) {
      return control_->DeleteRun(context, request, reply);
    });
  }
  Result<v1::BackupReply> Backup(const v1::BackupRequest& request) override {
    return Call<v1::BackupReply>(
        [&](grpc::ClientContext* context, auto* reply) { return control_->Backup(context, request, reply); },
        false);
  }

  Status ExportRun(const v1::ExportRunRequest& request,
                   const std::function<Status(std::string_view)>& each) override {
    grpc::ClientContext context;
    Prepare(&context, false);
    v1::ExportRunReply piece;
    auto reader = control_->ExportRun(&context, request);
    while (reader->Read(&piece)) {
      const Status status = each(piece.archive());
      if (status.ok()) continue;
      context.TryCancel();
      reader->Finish();
      return status;
    }
    return Told(reader->Finish());
  }

  std::unique_ptr<ImportStream> StartImport(const std::string& issuer) override {
    auto stream = std::make_unique<GrpcImport>(this, issuer);
    Prepare(&stream->context, false);
    stream->writer = control_->ImportRun(&stream->context, &stream->reply);
    return stream;
  }

  Result<v1::SeriesPoints> ReadSeries(const v1::ReadSeriesRequest& request) override {
    grpc::ClientContext context;
    Prepare(&context, true);
    v1::SeriesPoints all, piece;
    auto reader = query_->ReadSeries(&context, request);
    while (reader->Read(&piece)) {
      for (v1::SeriesPoint& point : *piece.mutable_points()) *all.add_points() = std::move(point);
    }
    const Status status = Told(reader->Finish());
    if (!status.ok()) return status;
    return all;
  }

  Status SendRecording(const std::vector<wire::RecordingItem>& items) override {
    const Status status = SendRecordingTo(channel_, std::chrono::milliseconds(options_.timeout_ms), items);
    if (status.ok()) return status;
    const Status why = status.code() == Code::kUnavailable ? WhyUnavailable() : OkStatus();
    return why.ok() ? status.Annotate("server " + options_.server) : why;
  }

  Status Watch(const v1::WatchRequest& request,
               const std::function<bool(const v1::WatchUpdate&)>& each) override {
    grpc::ClientContext context;
    Prepare(&context, false);
    v1::WatchUpdate update;
    auto reader = query_->Watch(&context, request);
    while (reader->Read(&update)) {
      if (each(update)) continue;
      context.TryCancel();
      reader->Finish();  // cancelled by us: its status says nothing
      return OkStatus();
    }
    return Told(reader->Finish());
  }

  Status Report(const v1::ReportRequest& request,
                const std::function<Status(const std::string&)>& each) override {
    grpc::ClientContext context;
    Prepare(&context, false);
    v1::ReportChunk chunk;
    auto reader = query_->Report(&context, request);
    while (reader->Read(&chunk)) {
      const Status status = each(chunk.html());
      if (status.ok()) continue;
      context.TryCancel();
      reader->Finish();
      return status;
    }
    return Told(reader->Finish());
  }

 private:
  struct GrpcImport final : ImportStream {
    GrpcImport(const GrpcClient* of, std::string who) : client(*of), issuer(std::move(who)) {}
    ~GrpcImport() override {
      if (finished) return;
      context.TryCancel();
      writer->Finish();
    }
    Status Write(std::string_view archive) override {
      v1::ImportRunRequest piece;
      piece.set_archive(archive.data(), archive.size());
      piece.set_issuer(std::exchange(issuer, {}));
      return writer->Write(piece) ? OkStatus() : Status(Code::kUnavailable, "the server takes no more");
    }
    Result<v1::ImportRunReply> Finish() override {
      writer->WritesDone();
      finished = true;
      const Status status = client.Told(writer->Finish());
      if (!status.ok()) return status;
      return reply;
    }
    const GrpcClient& client;
    std::string issuer;
    bool finished = false;
    grpc::ClientContext context;
    v1::ImportRunReply reply;
    std::unique_ptr<grpc::ClientWriter<v1::ImportRunRequest>> writer;
  };

  void Prepare(grpc::ClientContext* context, bool with_deadline) const {
    // Create has read it once: a file that is gone since then is a call without a token.
    const auto token = channel_->Token();
    if (token.ok() && !token->empty()) context->AddMetadata("authorization", "Bearer " + *token);
    if (with_deadline) {
      context->set_deadline(std::chrono::system_clock::now() +
                            std::chrono::milliseconds(options_.timeout_ms));
    }
  }

  // Where the reason is another than that nobody answers; else ok.
  Status WhyUnavailable() const {
    const Status why = channel_->Diagnose();
    return why.code() == Code::kUnavailable ? OkStatus() : why;
  }

  Status Told(const grpc::Status& status) const {
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      const Status why = WhyUnavailable();
      if (!why.ok()) return why;
      return Status(Code::kUnavailable, "server " + options_.server + ": " + status.error_message());
    }
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return Status(Code::kUnavailable, "server " + options_.server + ": no answer within " +
                                            std::to_string(options_.timeout_ms) + " ms");
    }
    return rpc::FromGrpc(status);
  }

  template <typename Reply, typename Method>
  Result<Reply> Call(Method method, bool with_deadline = true) {
    grpc::ClientContext context;
    Prepare(&context, with_deadline);
    Reply reply;
    const Status status = Told(method(&context, &reply));
    if (!status.ok()) return status;
    return reply;
  }

  ClientOptions options_;
  std::shared_ptr<rpc::Channel> channel_;
  std::unique_ptr<v1::Query::Stub> query_;
  std::unique_ptr<v1::Control::Stub> control_;
};

}  // namespace

Status CheckServerAddress(const std::string& server) {
  const auto wrong = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, "server: '" + server + "': " + why + "; expected host:port");
  };
  if (server.find("://") != std::string::npos) return wrong("a URL; leave out what stands before HOST");
  const size_t colon = server.rfind(':');
  if (colon == std::string::npos) return wrong("no port");
  if (colon == 0) return wrong("no host");
  int port = 0;
  const char* end = server.data() + server.size();
  const auto [at, error] = std::from_chars(server.data() + colon + 1, end, port);
  if (error != std::errc() || at != end || port < 1 || port > 65535) return wrong("port is not 1 to 65535");
  return OkStatus();
}

Result<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  FS_RETURN_IF_ERROR(CheckServerAddress(options.server));
  rpc::ChannelOptions channel_options;
  channel_options.address = options.server;
  channel_options.token = options.token;
  channel_options.token_file = options.token_file;
  channel_options.tls = options.tls;
  channel_options.ca_file = options.ca_file;
  channel_options.cert_file = options.cert_file;
  channel_options.key_file = options.key_file;
  channel_options.max_message_bytes = 256u << 20;  // one step of a very large model is one answer
  FS_ASSIGN_OR_RETURN(auto channel, rpc::Channel::Create(channel_options));
  return std::unique_ptr<Client>(std::make_unique<GrpcClient>(options, std::move(channel)));
}

}  // namespace foreshock::cli
