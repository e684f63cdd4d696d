// Session: one stream, from its Hello to its end.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "committer.h"
#include "connection_quota.h"
#include "foreshock/server/auth/call_slots.h"
#include "foreshock/server/auth/gate.h"
#include "foreshock/server/ingest/check_frame.h"
#include "outbox_impl.h"
#include "run_quota.h"
#include "stream_watch.h"

namespace foreshock::ingest {

// What all sessions share. Outlives them.
struct Shared {
  store::Store& store;
  const Clock& clock;
  const IngestOptions options;
  Counters counters;
  OutboxImpl outbox;
  std::atomic<bool> stopping{false};
  std::mutex hello_mutex;      // one Hello at a time: attempts are minted by what the store holds
  const auth::Gate open_gate;  // lets everybody do everything
  const auth::Gate& gate;
  auth::CallSlots slots;  // of streams
  ConnectionQuota connections;
  RunQuota new_runs;
  StreamWatch watch;
  Committer committer;  // last: its thread uses the counters

  Shared(store::Store& s, const Clock& c, const IngestOptions& o)
      : store(s),
        clock(c),
        options(o),
        gate(o.gate != nullptr ? *o.gate : open_gate),
        slots("streams", o.max_streams, "max_streams", o.max_streams_per_identity,
              "max_streams_per_identity"),
        connections(o.max_connections_per_identity),
        new_runs(o.max_new_runs_per_hour),
        watch(gate, c, o.hello_timeout),
        committer(s, c, o, counters) {}
};

class Session final : public rpc::IngestHandler {
 public:
  Session(Shared& shared, const rpc::PeerInfo& peer, std::shared_ptr<rpc::ReplySink> sink);
  ~Session() override;

  void OnRecord(wire::Record record) override;
  void OnEnd() override;

 private:
  // Who is it, may he write, and is there room?
  Status Enter(const auth::Credentials& credentials);
  void OnHello(std::string payload);
  // What of a Hello costs, against its limits.
  Status CheckLimits(const wire::Hello& hello);
  Status OpenSource(wire::Hello hello);
  void OnCounted(wire::Record record);
  // Decodes and judges; what is wrong goes into append->quarantine.
  Status Fill(wire::Record record, store::Append* append);
  void MeasureSkew(uint64_t time_unix_ns, store::Append* append);
  void Complain(const Status& status, uint64_t seq);
  void Hangup(const Status& status);

  Shared& shared_;
  const std::shared_ptr<StreamEnd> end_;
  std::optional<auth::Caller> caller_;
  std::unique_ptr<auth::CallSlots::Slot> slot_;
  std::unique_ptr<ConnectionQuota::Hold> connection_;
  uint64_t watched_ = 0;  // the watch's number
  bool closed_ = false;   // nothing more is taken
  std::optional<wire::Hello> hello_;
  store::SourceId source_;
  std::optional<ModelShape> shape_;
  std::optional<StepGuard> steps_;
  std::optional<int64_t> skew_ns_;
};

}  // namespace foreshock::ingest
