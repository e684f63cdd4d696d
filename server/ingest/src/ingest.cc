#include "foreshock/server/ingest/ingest.h"

#include "session.h"

namespace foreshock::ingest {
namespace {

class IngestImpl final : public Ingest, private rpc::IngestHandlerFactory {
 public:
  IngestImpl(store::Store& store, const Clock& clock, const IngestOptions& options)
      : shared_(store, clock, options) {}
  ~IngestImpl() override { CloseStreams(); }
  void CloseStreams() override {
    shared_.stopping = true;
    shared_.outbox.CloseAll(Status(Code::kUnavailable, "the server is stopping"));
  }

  rpc::IngestHandlerFactory& handlers() override { return *this; }
  Outbox& outbox() override { return shared_.outbox; }
  Status health() const override { return shared_.committer.health(); }

  Stats stats() const override {
    const Counters& c = shared_.counters;
    return {.streams = c.streams,
            .records = c.records,
            .bytes = c.bytes,
            .values = c.values,
            .duplicates = c.duplicates,
            .quarantined = c.quarantined,
            .unreadable = c.unreadable,
            .refused_hellos = c.refused_hellos,
            .connections = shared_.connections.open(),
            .refused_streams = shared_.slots.refused(),
            .refused_connections = shared_.connections.refused(),
            .refused_runs = c.refused_runs,
            .late_hellos = shared_.watch.late_hellos(),
            .revoked_streams = shared_.watch.revoked(),
            .commits = c.commits,
            .failed_commits = c.failed_commits,
            .overloads = c.overloads,
            .share_waits = c.share_waits,
            .queued_bytes = shared_.committer.queued_bytes()};
  }

 private:
  std::unique_ptr<rpc::IngestHandler> NewStream(const rpc::PeerInfo& peer,
                                                std::shared_ptr<rpc::ReplySink> sink) override {
    return std::make_unique<Session>(shared_, peer, std::move(sink));
  }

  Shared shared_;
};

}  // namespace

std::unique_ptr<Ingest> Ingest::Start(store::Store& store, const Clock& clock, const IngestOptions& options) {
  return std::make_unique<IngestImpl>(store, clock, options);
}

}  // namespace foreshock::ingest
