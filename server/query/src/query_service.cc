#include "foreshock/server/query/query_service.h"

#include <atomic>

#include "foreshock/base/catalogue.h"
#include "foreshock/rpc/services.h"
#include "foreshock/rpc/status.h"
#include "watch_feed.h"

namespace foreshock::query {
namespace {

constexpr size_t kReportChunkBytes = 256 << 10;
constexpr std::chrono::milliseconds kWatchPoll{100};
constexpr int kPollsAfterEnd = 20;

// One answer of a unary call.
template <typename Message>
grpc::Status Give(Result<Message> result, Message* reply) {
  if (!result.ok()) return rpc::ToGrpc(result.status());
  *reply = *std::move(result);
  return grpc::Status::OK;
}

class QueryServiceImpl final : public QueryService, public v1::Query::Service {
 public:
  QueryServiceImpl(const Queries* queries, RenderReport render)
      : queries_(*queries), render_(std::move(render)) {}

  grpc::Service* service() override { return this; }
  void Shutdown() override { stopping_ = true; }

  grpc::Status ListRuns(grpc::ServerContext*, const v1::ListRunsRequest* request,
                        v1::ListRunsReply* reply) override {
    return Give(queries_.ListRuns(*request), reply);
  }
  grpc::Status GetRun(grpc::ServerContext*, const v1::GetRunRequest* request, v1::Run* reply) override {
    return Give(queries_.GetRun(*request), reply);
  }
  grpc::Status ReadSeries(grpc::ServerContext*, const v1::ReadSeriesRequest* request,
                          grpc::ServerWriter<v1::SeriesPoints>* writer) override {
    return rpc::ToGrpc(
        queries_.ReadSeries(*request, [&](const v1::SeriesPoints& piece) { return writer->Write(piece); }));
  }
  grpc::Status ReadStep(grpc::ServerContext*, const v1::ReadStepRequest* request,
                        v1::StepReply* reply) override {
    return Give(queries_.ReadStep(*request), reply);
  }
  grpc::Status ListAlerts(grpc::ServerContext*, const v1::ListAlertsRequest* request,
                          v1::ListAlertsReply* reply) override {
    return Give(queries_.ListAlerts(*request), reply);
  }
  grpc::Status ListEvents(grpc::ServerContext*, const v1::ListEventsRequest* request,
                          v1::ListEventsReply* reply) override {
    return Give(queries_.ListEvents(*request), reply);
  }
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::ServerStatus* reply) override {
    *reply = queries_.GetStatus();
    return grpc::Status::OK;
  }

  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::WatchUpdate>* writer) override {
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

  grpc::Status Report(grpc::ServerContext*, const v1::ReportRequest* request,
                      grpc::ServerWriter<v1::ReportChunk>* writer) override {
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
  static bool Over(v1::RunState state) {
    return state == v1::RUN_STATE_FINISHED || state == v1::RUN_STATE_FAILED || state == v1::RUN_STATE_STOPPED;
  }

  // Sends the state whenever it changes, what the feed gives, and ends after the run has.
  grpc::Status Feed(const std::string& run, WatchFeed* feed, grpc::ServerContext* context,
                    grpc::ServerWriter<v1::WatchUpdate>* writer) {
    v1::RunState last = v1::RUN_STATE_UNSPECIFIED;
    int polls_after_end = 0;
    while (!context->IsCancelled() && !stopping_) {
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
  std::atomic<bool> stopping_{false};
};

}  // namespace

std::unique_ptr<QueryService> QueryService::Create(const Queries* queries, RenderReport render) {
  return std::make_unique<QueryServiceImpl>(queries, std::move(render));
}

}  // namespace foreshock::query
