// Session: one stream, from its Hello to its end.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "check_frame.h"
#include "committer.h"
#include "outbox_impl.h"

namespace foreshock::ingest {

// What all sessions share. Outlives them.
struct Shared {
  store::Store& store;
  const Clock& clock;
  const IngestOptions options;
  Counters counters;
  OutboxImpl outbox;
  std::atomic<bool> stopping{false};
  std::mutex hello_mutex;  // one Hello at a time: attempts are minted by what the store holds
  Committer committer;     // last: its thread uses the counters

  Shared(store::Store& s, const Clock& c, const IngestOptions& o)
      : store(s), clock(c), options(o), committer(s, c, o, counters) {}
};

class Session final : public rpc::IngestHandler {
 public:
  Session(Shared& shared, std::shared_ptr<rpc::ReplySink> sink);
  ~Session() override;

  void OnRecord(wire::Record record) override;
  void OnEnd() override;

 private:
  void OnHello(std::string payload);
  Status OpenSource(wire::Hello hello);
  void OnCounted(wire::Record record);
  // Decodes and judges; what is wrong goes into append->quarantine.
  Status Fill(wire::Record record, store::Append* append);
  void MeasureSkew(uint64_t time_unix_ns, store::Append* append);
  void Complain(const Status& status, uint64_t seq);
  void Hangup(const Status& status);

  Shared& shared_;
  const std::shared_ptr<StreamEnd> end_;
  bool closed_ = false;  // nothing more is taken
  std::optional<wire::Hello> hello_;
  store::SourceId source_;
  std::optional<ModelShape> shape_;
  std::optional<StepGuard> steps_;
  std::optional<int64_t> skew_ns_;
};

}  // namespace foreshock::ingest
