#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "foreshock/agent/forward.h"
#include "foreshock/rpc/status.h"
#include "route.h"
#include "source_stream.h"

namespace foreshock::agent {
namespace {

constexpr std::chrono::seconds kLookAgain{1};

rpc::ChannelOptions ChannelOptionsOf(const ForwarderOptions& options, const std::string& address) {
  rpc::ChannelOptions channel;
  channel.address = address;
  channel.token = options.token;
  channel.token_file = options.token_file;
  channel.tls = options.tls;
  channel.ca_file = options.ca_file;
  channel.cert_file = options.cert_file;
  channel.key_file = options.key_file;
  channel.max_message_bytes = options.max_message_bytes;
  channel.keepalive_s = options.keepalive_s;
  return channel;
}

}  // namespace

struct Forwarder::Impl {
  Impl(Spool& records, const ForwarderOptions& opts, Downlink down)
      : spool(records),
        options(opts),
        downlink(std::move(down)),
        random(opts.seed != 0 ? opts.seed : std::random_device{}()) {}

  // A Hello that the server refused: when it may be tried again, 0: never.
  struct Refusal {
    std::string hello;
    int64_t retry_ns = 0;
  };

  void Manage();
  void EndFinished();
  void TellTrainer(const std::string& server, const SourceKey& key, const Status& reason);
  void ForgetGone(const std::vector<SourceInfo>& sources);
  bool MayTry(const SourceInfo& source);
  void StartMissing();
  void StartStream(const SourceKey& key);

  // One server with its connection.
  struct Server {
    Server(const std::string& address, Clock& clock) : state(address, clock) {}
    ServerState state;
    std::shared_ptr<rpc::Channel> channel;
  };
  Server& ServerOf(const std::string& run) { return *servers[RouteOf(addresses, run)]; }

  Spool& spool;
  const ForwarderOptions options;
  const Downlink downlink;
  std::vector<std::string> addresses;
  std::vector<std::unique_ptr<Server>> servers;  // as the addresses
  std::mt19937_64 random;
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
  auto impl = std::make_unique<Impl>(spool, options, std::move(downlink));
  FS_ASSIGN_OR_RETURN(impl->addresses, SplitAddresses(options.address));
  for (const std::string& address : impl->addresses) {
    auto server = std::make_unique<Impl::Server>(address, *options.clock);
    FS_ASSIGN_OR_RETURN(server->channel, rpc::Channel::Create(ChannelOptionsOf(options, address)));
    impl->servers.push_back(std::move(server));
  }
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
      ServerState& state = ServerOf(it->first.run).state;
      if (state.Refused(it->first, stream.reason())) TellTrainer(state.address(), it->first, stream.reason());
    }
    it = streams.erase(it);
  }
}

void Forwarder::Impl::TellTrainer(const std::string& server, const SourceKey& key, const Status& reason) {
  wire::Reply reply;
  wire::IngestError error;
  error.code = static_cast<uint32_t>(rpc::ToGrpc(reason).error_code());
  error.message = "server " + server + " refuses run '" + key.run + "': " + reason.message();
  error.final = reason.code() == Code::kInvalidArgument;
  reply.error = std::move(error);
  downlink(key, reply);
}

void Forwarder::Impl::ForgetGone(const std::vector<SourceInfo>& sources) {
  std::set<SourceKey> there;
  for (const SourceInfo& source : sources) there.insert(source.key);
  std::erase_if(refusals, [&](const auto& entry) { return !there.contains(entry.first); });
  for (auto& server : servers) server->state.ForgetOthers(there);
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

void Forwarder::Impl::StartStream(const SourceKey& key) {
  Server& server = ServerOf(key.run);
  streams[key] =
      std::make_unique<SourceStream>(spool, server.channel, options, key, server.state, downlink, random());
}

// Every source with a trainer gets a stream; of the others, which only have a backlog, a few at a time, the
// runs in turn: one that left a thousand processes behind must not hold up the last words of another.
void Forwarder::Impl::StartMissing() {
  EndFinished();
  const std::vector<SourceInfo> sources = spool.Sources();
  ForgetGone(sources);
  size_t backlog = 0;
  std::map<std::string, size_t> backlog_of;  // open streams, by run
  std::vector<const SourceInfo*> left;       // that wait for one
  for (const SourceInfo& source : sources) {
    const bool open = streams.contains(source.key);
    if (!source.attached && open) {
      ++backlog;
      ++backlog_of[source.key.run];
    } else if (!open && MayTry(source)) {
      if (source.attached) {
        StartStream(source.key);
      } else {
        left.push_back(&source);
      }
    }
  }
  while (backlog < options.max_backlog_streams && !left.empty()) {
    const auto next = std::min_element(left.begin(), left.end(), [&](const auto* a, const auto* b) {
      return backlog_of[a->key.run] < backlog_of[b->key.run];
    });
    StartStream((*next)->key);
    ++backlog;
    ++backlog_of[(*next)->key.run];
    left.erase(next);
  }
}

ForwarderStats Forwarder::Stats() const {
  ForwarderStats sum;
  for (const auto& server : impl_->servers) {
    ForwarderStats one = server->state.Stats();
    sum.servers.push_back(
        {server->state.address(), one.streams, one.failures, server->state.away(), one.last_error});
    sum.connected |= one.connected;
    sum.streams += one.streams;
    sum.opened += one.opened;
    sum.failures += one.failures;
    sum.sent += one.sent;
    sum.acknowledged += one.acknowledged;
    sum.errors += one.errors;
    sum.undeliverable += one.undeliverable;
    sum.refusals += one.refusals;
    // Of servers whose clocks differ: the largest in amount is what somebody should look at.
    if (one.clock_skew_seconds &&
        (!sum.clock_skew_seconds || std::abs(*one.clock_skew_seconds) > std::abs(*sum.clock_skew_seconds))) {
      sum.clock_skew_seconds = one.clock_skew_seconds;
    }
    sum.refused.insert(sum.refused.end(), one.refused.begin(), one.refused.end());
    if (!one.last_error.empty() && (sum.last_error.empty() || server->state.away()))
      sum.last_error = one.last_error;
  }
  return sum;
}

}  // namespace foreshock::agent
