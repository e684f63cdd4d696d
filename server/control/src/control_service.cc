#include "foreshock/server/control/control_service.h"

#include "foreshock/rpc/call_info.h"
#include "foreshock/rpc/services.h"
#include "foreshock/rpc/status.h"
#include "foreshock/server/auth/gate.h"
#include "idle_limit.h"

namespace foreshock::control {
namespace {

using auth::Scope;

template <typename Message>
grpc::Status Give(Result<Message> result, Message* reply) {
  if (!result.ok()) return rpc::ToGrpc(result.status());
  *reply = *std::move(result);
  return grpc::Status::OK;
}

class ControlServiceImpl final : public ControlService, public v1::Control::Service {
 public:
  ControlServiceImpl(Controls* controls, upkeep::Upkeep* upkeep, const SilenceApi* silences,
                     const auth::Gate* gate, move::RunMover* mover, std::chrono::milliseconds idle_limit)
      : controls_(*controls),
        upkeep_(*upkeep),
        silences_(*silences),
        gate_(gate != nullptr ? *gate : open_gate_),
        mover_(mover),
        idle_limit_(idle_limit) {}
  grpc::Service* service() override { return this; }

  grpc::Status Act(grpc::ServerContext* context, const v1::ActRequest* request,
                   v1::ActReply* reply) override {
    if (const Status may = May(*context, Scope::kControl, request->run()); !may.ok()) return rpc::ToGrpc(may);
    return Give(controls_.Act(*request), reply);
  }
  grpc::Status ListActions(grpc::ServerContext* context, const v1::ListActionsRequest* request,
                           v1::ListActionsReply* reply) override {
    if (const Status may = May(*context, Scope::kRead, request->run()); !may.ok()) return rpc::ToGrpc(may);
    return Give(controls_.ListActions(*request), reply);
  }
  grpc::Status SetSampling(grpc::ServerContext* context, const v1::SetSamplingRequest* request,
                           v1::SetSamplingReply*) override {
    if (const Status may = May(*context, Scope::kControl, request->run()); !may.ok()) return rpc::ToGrpc(may);
    return rpc::ToGrpc(controls_.SetSampling(*request));
  }
  grpc::Status CreateSilence(grpc::ServerContext* context, const v1::CreateSilenceRequest* request,
                             v1::Silence* reply) override {
    const Status may = May(*context, Scope::kControl, CommonPrefix(request->silence().run()));
    return may.ok() ? Give(silences_.Create(*request), reply) : rpc::ToGrpc(may);
  }
  grpc::Status Acknowledge(grpc::ServerContext* context, const v1::AcknowledgeRequest* request,
                           v1::ListSilencesReply* reply) override {
    const Status may = May(*context, Scope::kControl, request->run());
    return may.ok() ? Give(silences_.Acknowledge(*request), reply) : rpc::ToGrpc(may);
  }
  grpc::Status ListSilences(grpc::ServerContext* context, const v1::ListSilencesRequest* request,
                            v1::ListSilencesReply* reply) override {
    const Status may = MayRead(*context, request->run());
    return may.ok() ? Give(silences_.List(*request), reply) : rpc::ToGrpc(may);
  }
  grpc::Status ExpireSilence(grpc::ServerContext* context, const v1::ExpireSilenceRequest* request,
                             v1::Silence* reply) override {
    // Of one that is not there nothing is known but that it concerns all runs as much as any.
    const Status may = May(*context, Scope::kControl, CommonPrefix(silences_.RunsOf(request->id())));
    return may.ok() ? Give(silences_.Expire(*request), reply) : rpc::ToGrpc(may);
  }
  grpc::Status ListAudit(grpc::ServerContext* context, const v1::ListAuditRequest* request,
                         v1::ListAuditReply* reply) override {
    const Status may = MayRead(*context, request->run());
    return may.ok() ? Give(silences_.Audit(*request), reply) : rpc::ToGrpc(may);
  }

  grpc::Status DeleteRun(grpc::ServerContext* context, const v1::DeleteRunRequest* request,
                         v1::DeleteRunReply*) override {
    if (const Status may = May(*context, Scope::kControl, request->run()); !may.ok()) return rpc::ToGrpc(may);
    return rpc::ToGrpc(upkeep_.DeleteRun(request->run(), request->force(), request->issuer()));
  }
  grpc::Status Backup(grpc::ServerContext* context, const v1::BackupRequest* request,
                      v1::BackupReply* reply) override {
    if (const Status may = MayForAllRuns(*context, Scope::kControl); !may.ok()) return rpc::ToGrpc(may);
    const auto info = upkeep_.Backup(request->name(), request->issuer());
    if (!info.ok()) return rpc::ToGrpc(info.status());
    reply->set_folder(info->folder);
    reply->set_bytes(info->bytes);
    return grpc::Status::OK;
  }

  grpc::Status ExportRun(grpc::ServerContext* context, const v1::ExportRunRequest* request,
                         grpc::ServerWriter<v1::ExportRunReply>* writer) override {
    if (const Status may = May(*context, Scope::kControl, request->run()); !may.ok()) return rpc::ToGrpc(may);
    if (mover_ == nullptr) return rpc::ToGrpc(NoMover());
    v1::ExportRunReply piece;
    IdleLimit limit(context, idle_limit_);
    return rpc::ToGrpc(mover_->Export(request->run(), request->issuer(), [&](std::string_view bytes) {
      piece.set_archive(bytes.data(), bytes.size());
      return limit.Allows([&] { return writer->Write(piece); }) ? OkStatus() : Gone("export", limit);
    }));
  }
  grpc::Status ImportRun(grpc::ServerContext* context, grpc::ServerReader<v1::ImportRunRequest>* reader,
                         v1::ImportRunReply* reply) override {
    // Whose the archive is stands in it; who may control no run at all need not send it.
    const auto caller = gate_.Identify(CredentialsOf(*context));
    if (!caller.ok()) return rpc::ToGrpc(caller.status());
    if (const Status may = gate_.Count(caller->MayAtAll(Scope::kControl)); !may.ok()) return rpc::ToGrpc(may);
    if (mover_ == nullptr) return rpc::ToGrpc(NoMover());
    v1::ImportRunRequest piece;
    IdleLimit limit(context, idle_limit_);
    const auto next = [&] { return limit.Allows([&] { return reader->Read(&piece); }); };
    if (!next()) return rpc::ToGrpc(Status(Code::kInvalidArgument, "archive: empty"));
    const auto import = mover_->StartImport(
        piece.issuer(), [&](const std::string& run) { return May(*context, Scope::kControl, run); });
    if (!import.ok()) return rpc::ToGrpc(import.status());
    do {
      const Status fed = (*import)->Feed(piece.archive());
      if (!fed.ok()) return rpc::ToGrpc(fed);
    } while (next());
    if (limit.expired() || context->IsCancelled()) return rpc::ToGrpc(Gone("import", limit));
    const auto outcome = (*import)->Finish();
    if (!outcome.ok()) return rpc::ToGrpc(outcome.status());
    reply->set_run(outcome->run);
    reply->set_attempts(outcome->attempts);
    reply->set_processes(outcome->processes);
    Tell(outcome->added, reply->mutable_added());
    Tell(outcome->known, reply->mutable_known());
    return grpc::Status::OK;
  }

 private:
  static Status NoMover() { return Status(Code::kUnimplemented, "this server moves no runs"); }
  // What the log says: where the call was cancelled its caller reads CANCELLED.
  Status Gone(const std::string& what, const IdleLimit& limit) const {
    if (!limit.expired()) return Status(Code::kUnavailable, what + ": the caller went away");
    return Status(Code::kUnavailable,
                  what + ": the caller kept still for " + std::to_string(idle_limit_.count()) + " ms");
  }
  static void Tell(const store::RunImport::Counts& counts, v1::ImportCounts* to) {
    to->set_frames(counts.frames);
    to->set_merged_frames(counts.merged_frames);
    to->set_events(counts.events);
    to->set_quarantined(counts.quarantined);
    to->set_notes(counts.notes);
  }
  static auth::Credentials CredentialsOf(const grpc::ServerContext& context) {
    const rpc::PeerInfo peer = rpc::PeerOf(context);
    return {peer.token, peer.identity, peer.address};
  }
  Status May(const grpc::ServerContext& context, Scope scope, const std::string& run) const {
    return gate_.Admit(CredentialsOf(context), scope, run).status();
  }
  // An empty run means all of them.
  Status MayRead(const grpc::ServerContext& context, const std::string& run) const {
    return run.empty() ? MayForAllRuns(context, Scope::kRead) : May(context, Scope::kRead, run);
  }
  // What all runs that fit the pattern begin with: who may act on all runs that begin so may act on these.
  static std::string CommonPrefix(const std::string& pattern) {
    return pattern.substr(0, pattern.find_first_of("*?"));
  }
  Status MayForAllRuns(const grpc::ServerContext& context, Scope scope) const {
    FS_ASSIGN_OR_RETURN(const auth::Caller caller, gate_.Identify(CredentialsOf(context)));
    return gate_.Count(caller.MayForAllRuns(scope));
  }

  Controls& controls_;
  upkeep::Upkeep& upkeep_;
  const SilenceApi& silences_;
  const auth::Gate open_gate_;  // lets everybody do everything
  const auth::Gate& gate_;
  move::RunMover* const mover_;
  const std::chrono::milliseconds idle_limit_;
};

}  // namespace

std::unique_ptr<ControlService> ControlService::Create(Controls* controls, upkeep::Upkeep* upkeep,
                                                       const SilenceApi* silences, const auth::Gate* gate,
                                                       move::RunMover* mover,
                                                       std::chrono::milliseconds idle_limit) {
  return std::make_unique<ControlServiceImpl>(controls, upkeep, silences, gate, mover, idle_limit);
}

}  // namespace foreshock::control
