#include "foreshock/server/query/query_service.h"

#include <algorithm>
#include <atomic>

#include "foreshock/base/catalogue.h"
#include "foreshock/rpc/call_info.h"
#include "foreshock/rpc/services.h"
#include "foreshock/rpc/status.h"
#include "foreshock/server/auth/call_slots.h"
#include "foreshock/server/auth/gate.h"
#include "watch_feed.h"

namespace foreshock::query {
namespace {

constexpr size_t kReportChunkBytes = 256 << 10;
constexpr std::chrono::milliseconds kWatchPoll{100};
constexpr int kPollsAfterEnd = 20;
constexpr int kPollsPerExpiry = 300;

// One answer of a unary call.
template <typename Message>
grpc::Status Give(Result<Message> result, Message* reply) {
  if (!result.ok()) return rpc::ToGrpc(result.status());
  *reply = *std::move(result);
  return grpc::Status::OK;
}

class QueryServiceImpl final : public QueryService, public v1::Query::Service {
 public:
  QueryServiceImpl(const Queries* queries, RenderReport render, const QueryServiceOptions& options)
      : queries_(*queries),
        render_(std::move(render)),
        gate_(options.gate != nullptr ? *options.gate : open_gate_),
        reads_("reads", options.max_reads, "max_reads", options.max_reads_per_identity,
               "max_reads_per_identity") {}

  grpc::Service* service() override { return this; }
  void Shutdown() override { stopping_ = true; }
  uint64_t refused_reads() const override { return reads_.refused(); }

  grpc::Status ListRuns(grpc::ServerContext* context, const v1::ListRunsRequest* request,
                        v1::ListRunsReply* reply) override {
    const auto caller = Reader(*context);
    if (!caller.ok()) return rpc::ToGrpc(caller.status());
    const grpc::Status status = Give(queries_.ListRuns(*request), reply);
    KeepReadable(*caller, reply->mutable_runs());
    return status;
  }
  grpc::Status GetRun(grpc::ServerContext* context, const v1::GetRunRequest* request,
                      v1::Run* reply) override {
    if (const Status may = MayRead(*context, request->run()); !may.ok()) return rpc::ToGrpc(may);
    return Give(queries_.GetRun(*request), reply);
  }
  grpc::Status ReadSeries(grpc::ServerContext* context, const v1::ReadSeriesRequest* request,
                          grpc::ServerWriter<v1::SeriesPoints>* writer) override {
    const auto slot = TakeSlot(*context, {request->run()});
    if (!slot.ok()) return rpc::ToGrpc(slot.status());
    return rpc::ToGrpc(
        queries_.ReadSeries(*request, [&](const v1::SeriesPoints& piece) { return writer->Write(piece); }));
  }
  grpc::Status ReadStep(grpc::ServerContext* context, const v1::ReadStepRequest* request,
                        v1::StepReply* reply) override {
    if (const Status may = MayRead(*context, request->run()); !may.ok()) return rpc::ToGrpc(may);
    return Give(queries_.ReadStep(*request), reply);
  }
  grpc::Status ListAlerts(grpc::ServerContext* context, const v1::ListAlertsRequest* request,
                          v1::ListAlertsReply* reply) override {
    const auto caller = Reader(*context);
    Status may = caller.status();
    if (may.ok() && !request->run().empty())
      may = gate_.Count(caller->May(auth::Scope::kRead, request->run()));
    if (!may.ok()) return rpc::ToGrpc(may);
    const grpc::Status status = Give(queries_.ListAlerts(*request), reply);
    KeepReadable(*caller, reply->mutable_alerts());
    return status;
  }
  grpc::Status ListEvents(grpc::ServerContext* context, const v1::ListEventsRequest* request,
                          v1::ListEventsReply* reply) override {
    if (const Status may = MayRead(*context, request->run()); !may.ok()) return rpc::ToGrpc(may);
    return Give(queries_.ListEvents(*request), reply);
  }
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest*,
                         v1::ServerStatus* reply) override {
    if (const auto caller = Reader(*context); !caller.ok()) return rpc::ToGrpc(caller.status());
    *reply = queries_.GetStatus();
    return grpc::Status::OK;
  }

  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchUpdate>* writer) override {
    const auto slot = TakeSlot(*context, {request->run()});
    if (!slot.ok()) return rpc::ToGrpc(slot.status());
    std::vector<uint16_t> signals = {kLoss, kGradNorm};
    if (request->signals_size() > 0) signals.clear();
    for (const std::string& name : request->signals()) {
      const SignalInfo* info = FindSignal(name);
      if (info == nullptr) {
        return {grpc::StatusCode::INVALID_ARGUMENT, "signals: \"" + name + "\" is not in the catalogue"};
      }
      signals.push_back(info->id);
    }
    WatchFeed feed(queries_.options(), request->run(), std::move(signals));
    return Feed(request->run(), &feed, context, writer);
  }

  grpc::Status Report(grpc::ServerContext* context, const v1::ReportRequest* request,
                      grpc::ServerWriter<v1::ReportChunk>* writer) override {
    const auto slot = TakeSlot(*context, {request->runs().begin(), request->runs().end()});
    if (!slot.ok()) return rpc::ToGrpc(slot.status());
    if (!render_) return {grpc::StatusCode::UNIMPLEMENTED, "this server writes no reports"};
    const auto page = render_({request->runs().begin(), request->runs().end()});
    if (!page.ok()) return rpc::ToGrpc(page.status());
    for (size_t at = 0; at < page->size(); at += kReportChunkBytes) {
      v1::ReportChunk chunk;
      chunk.set_html(page->substr(at, kReportChunkBytes));
      if (!writer->Write(chunk)) break;
    }
    return grpc::Status::OK;
  }

 private:
  static auth::Credentials CredentialsOf(const grpc::ServerContext& context) {
    const rpc::PeerInfo peer = rpc::PeerOf(context);
    return {peer.token, peer.identity, peer.address};
  }
  Result<auth::Caller> Reader(const grpc::ServerContext& context) const {
    FS_ASSIGN_OR_RETURN(auth::Caller caller, gate_.Identify(CredentialsOf(context)));
    FS_RETURN_IF_ERROR(gate_.Count(caller.MayAtAll(auth::Scope::kRead)));
    return caller;
  }
  Status MayRead(const grpc::ServerContext& context, const std::string& run) const {
    return gate_.Admit(CredentialsOf(context), auth::Scope::kRead, run).status();
  }
  template <typename List>
  static void KeepReadable(const auth::Caller& caller, List* list) {
    const auto foreign = [&](const auto& item) { return !caller.May(auth::Scope::kRead, item.run()).ok(); };
    list->erase(std::remove_if(list->begin(), list->end(), foreign), list->end());
  }
  // For calls that last.
  Result<std::unique_ptr<auth::CallSlots::Slot>> TakeSlot(const grpc::ServerContext& context,
                                                          const std::vector<std::string>& runs) {
    FS_ASSIGN_OR_RETURN(const auth::Caller caller, Reader(context));
    for (const std::string& run : runs) FS_RETURN_IF_ERROR(gate_.Count(caller.May(auth::Scope::kRead, run)));
    return reads_.Take(caller.name());
  }

  static bool Over(v1::RunState state) {
    return state == v1::RUN_STATE_FINISHED || state == v1::RUN_STATE_FAILED || state == v1::RUN_STATE_STOPPED;
  }

  // Sends the state whenever it changes, what the feed gives, and ends after the run has.
  grpc::Status Feed(const std::string& run, WatchFeed* feed, grpc::ServerContext* context,
                    grpc::ServerWriter<v1::WatchUpdate>* writer) {
    v1::RunState last = v1::RUN_STATE_UNSPECIFIED;
    int polls_after_end = 0;
    uint64_t generation = gate_.generation();
    for (int poll = 1; !context->IsCancelled() && !stopping_; ++poll) {
      // Tokens are revoked, which changes the generation, and they expire, which does not.
      if (const uint64_t now = gate_.generation(); now != generation || poll % kPollsPerExpiry == 0) {
        generation = now;
        if (const Status may = MayRead(*context, run); !may.ok()) return rpc::ToGrpc(may);
      }
      const auto state = queries_.StateOf(run);
      if (!state.ok()) return rpc::ToGrpc(state.status());
      const bool over = Over(*state);
      // The goodbye may be here before the last steps are merged over the ranks; what was said before it
      // comes first.
      const bool complete =
          over && (last == v1::RUN_STATE_UNSPECIFIED || feed->last_step() >= queries_.LastStep(run) ||
                   ++polls_after_end > kPollsAfterEnd);
      if (complete) queries_.options().alerts->Flush();
      while (auto update = feed->Next(kWatchPoll)) {
        if (!writer->Write(*update)) return grpc::Status::OK;
      }
      if (feed->overflow()) {
        return {grpc::StatusCode::RESOURCE_EXHAUSTED,
                "the reader is too slow, alerts or events were left out"};
      }
      if (*state != last && over == complete) {
        v1::WatchUpdate update;
        update.set_state(last = *state);
        if (!writer->Write(update)) return grpc::Status::OK;
      }
      if (complete) return grpc::Status::OK;
    }
    if (stopping_) return {grpc::StatusCode::UNAVAILABLE, "the server stops"};
    return grpc::Status::CANCELLED;
  }

  const Queries& queries_;
  const RenderReport render_;
  const auth::Gate open_gate_;  // lets everybody do everything
  const auth::Gate& gate_;
  auth::CallSlots reads_;
  std::atomic<bool> stopping_{false};
};

}  // namespace

std::unique_ptr<QueryService> QueryService::Create(const Queries* queries, RenderReport render,
                                                   const QueryServiceOptions& options) {
  return std::make_unique<QueryServiceImpl>(queries, std::move(render), options);
}

}  // namespace foreshock::query
