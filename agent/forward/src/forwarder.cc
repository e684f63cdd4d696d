#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "foreshock/agent/forward.h"
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

  void Manage();
  void StartMissing();

  Spool& spool;
  const ForwarderOptions options;
  const Downlink downlink;
  ServerState state;
  std::mt19937_64 random;
  std::shared_ptr<rpc::Channel> channel;
  std::map<SourceKey, std::unique_ptr<SourceStream>> streams;  // the manager thread's alone
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

// Every source with a trainer gets a stream; of the others, which only have a backlog, a few at a time.
void Forwarder::Impl::StartMissing() {
  std::erase_if(streams, [](const auto& entry) { return entry.second->finished(); });
  const std::vector<SourceInfo> sources = spool.Sources();
  size_t backlog = 0;
  for (const SourceInfo& source : sources)
    backlog += !source.attached && streams.contains(source.key) ? 1 : 0;
  for (const SourceInfo& source : sources) {
    if (streams.contains(source.key)) continue;
    if (!source.attached && ++backlog > options.max_backlog_streams) continue;
    streams[source.key] =
        std::make_unique<SourceStream>(spool, channel, options, source.key, state, downlink, random());
  }
}

ForwarderStats Forwarder::Stats() const { return impl_->state.Stats(); }

}  // namespace foreshock::agent
