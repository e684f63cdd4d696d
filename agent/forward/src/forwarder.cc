#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "foreshock/agent/forward.h"
#include "foreshock/rpc/status.h"
#include "source_stream.h"

namespace foreshock::agent {
namespace {

constexpr std::chrono::seconds kLookAgain{1};

}  // namespace

struct Forwarder::Impl {
  Impl(Spool& records, const ForwarderOptions& opts, Downlink down)
      : spool(records),
        options(opts),
        downlink(std::move(down)),
        state(opts.address, *opts.clock),
        random(opts.seed != 0 ? opts.seed : std::random_device{}()) {}

  // A Hello that the server refused: when it may be tried again, 0: never.
  struct Refusal {
    std::string hello;
    int64_t retry_ns = 0;
  };

  void Manage();
  void EndFinished();
  void TellTrainer(const SourceKey& key, const Status& reason);
  void ForgetGone(const std::vector<SourceInfo>& sources);
  bool MayTry(const SourceInfo& source);
  void StartMissing();

  Spool& spool;
  const ForwarderOptions options;
  const Downlink downlink;
  ServerState state;
  std::mt19937_64 random;
  std::shared_ptr<rpc::Channel> channel;
  // The manager thread's alone.
  std::map<SourceKey, std::unique_ptr<SourceStream>> streams;
  std::map<SourceKey, Refusal> refusals;
  std::atomic<bool> stopping{false};
  std::thread manager;
};

Forwarder::Forwarder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Forwarder::~Forwarder() { Stop(); }

Result<std::unique_ptr<Forwarder>> Forwarder::Start(Spool& spool, const ForwarderOptions& options,
                                                    Downlink downlink) {
  if (options.address.empty()) return Status(Code::kInvalidArgument, "server address: empty");
  auto impl = std::make_unique<Impl>(spool, options, std::move(downlink));
  rpc::ChannelOptions channel;
  channel.address = options.address;
  channel.token = options.token;
  channel.token_file = options.token_file;
  channel.tls = options.tls;
  channel.ca_file = options.ca_file;
  channel.cert_file = options.cert_file;
  channel.key_file = options.key_file;
  channel.max_message_bytes = options.max_message_bytes;
  FS_ASSIGN_OR_RETURN(impl->channel, rpc::Channel::Create(channel));
  impl->manager = std::thread([raw = impl.get()] { raw->Manage(); });
  return std::unique_ptr<Forwarder>(new Forwarder(std::move(impl)));
}

void Forwarder::Stop() {
  if (impl_->stopping.exchange(true)) return;
  impl_->spool.Wake();
  impl_->manager.join();
}

void Forwarder::Impl::Manage() {
  uint64_t seen = 0;
  while (!stopping.load()) {
    StartMissing();
    seen = spool.WaitForSources(seen, kLookAgain);
  }
  for (auto& [key, stream] : streams) stream->Stop();
  spool.Wake();
  streams.clear();
}

void Forwarder::Impl::EndFinished() {
  for (auto it = streams.begin(); it != streams.end();) {
    const SourceStream& stream = *it->second;
    if (!stream.finished()) {
      ++it;
      continue;
    }
    if (stream.refused()) {
      const bool final = stream.reason().code() == Code::kInvalidArgument;
      const int64_t retry_ns = options.clock->MonotonicNanos() + options.refused_retry_ms * 1'000'000;
      refusals[it->first] = {stream.hello(), final ? 0 : retry_ns};
      if (state.Refused(it->first, stream.reason())) TellTrainer(it->first, stream.reason());
    }
    it = streams.erase(it);
  }
}

void Forwarder::Impl::TellTrainer(const SourceKey& key, const Status& reason) {
  wire::Reply reply;
  wire::IngestError error;
  error.code = static_cast<uint32_t>(rpc::ToGrpc(reason).error_code());
  error.message = "server " + options.address + " refuses run '" + key.run + "': " + reason.message();
  error.final = reason.code() == Code::kInvalidArgument;
  reply.error = std::move(error);
  downlink(key, reply);
}

void Forwarder::Impl::ForgetGone(const std::vector<SourceInfo>& sources) {
  std::set<SourceKey> there;
  for (const SourceInfo& source : sources) there.insert(source.key);
  std::erase_if(refusals, [&](const auto& entry) { return !there.contains(entry.first); });
  state.ForgetOthers(there);
}

bool Forwarder::Impl::MayTry(const SourceInfo& source) {
  const auto refusal = refusals.find(source.key);
  if (refusal == refusals.end()) return true;
  const bool changed = refusal->second.hello != source.hello;
  const int64_t retry_ns = refusal->second.retry_ns;
  const bool due = retry_ns != 0 && options.clock->MonotonicNanos() >= retry_ns;
  if (!changed && !due) return false;
  refusals.erase(refusal);
  return true;
}

// Every source with a trainer gets a stream; of the others, which only have a backlog, a few at a time.
void Forwarder::Impl::StartMissing() {
  EndFinished();
  const std::vector<SourceInfo> sources = spool.Sources();
  ForgetGone(sources);
  size_t backlog = 0;
  for (const SourceInfo& source : sources)
    backlog += !source.attached && streams.contains(source.key) ? 1 : 0;
  for (const SourceInfo& source : sources) {
    if (streams.contains(source.key) || !MayTry(source)) continue;
    if (!source.attached && ++backlog > options.max_backlog_streams) continue;
    streams[source.key] =
        std::make_unique<SourceStream>(spool, channel, options, source.key, state, downlink, random());
  }
}

ForwarderStats Forwarder::Stats() const { return impl_->state.Stats(); }

}  // namespace foreshock::agent
