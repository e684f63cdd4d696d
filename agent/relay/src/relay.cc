#include "foreshock/agent/relay.h"

#include <deque>
#include <map>
#include <mutex>

#include "foreshock/base/log_refused.h"
#include "foreshock/base/logging.h"
#include "foreshock/base/socket.h"
#include "foreshock/rpc/server.h"
#include "foreshock/wire/reply.h"
#include "relay_stream.h"

namespace foreshock::agent {
namespace {

constexpr size_t kMaxKeptForSource = 64;
constexpr size_t kMaxKnownSources = 4096;

Status CheckSecurity(const RelayOptions& options) {
  const bool all = !options.cert_file.empty() && !options.key_file.empty() && !options.client_ca_file.empty();
  const bool none = options.cert_file.empty() && options.key_file.empty() && options.client_ca_file.empty();
  if (!all && !none) {
    return Status(Code::kInvalidArgument, "listen-cert, listen-key, listen-client-ca: only together");
  }
  const std::string host = options.address.substr(0, options.address.rfind(':'));
  if (all || host == "[::1]" || IsLoopback(host)) return OkStatus();
  return Status(Code::kInvalidArgument,
                "listen-grpc: " + options.address +
                    " is not loopback; agents of other machines are taken with certificates only: give "
                    "listen-cert, listen-key and listen-client-ca");
}

}  // namespace

struct Relay::Impl final : RelayHub, rpc::IngestHandlerFactory {
  struct Source {
    bool known = false;
    std::shared_ptr<rpc::ReplySink> sink;  // null: away
    std::deque<wire::Reply> kept;
  };

  Impl(Spool& records, const RelayOptions& opts) : spool(records), options(opts) {}

  std::unique_ptr<rpc::IngestHandler> NewStream(const rpc::PeerInfo& peer,
                                                std::shared_ptr<rpc::ReplySink> sink) override {
    const std::string who = peer.identity.empty() ? peer.address : peer.identity + " at " + peer.address;
    return std::make_unique<RelayStream>(spool, *this, options, who, std::move(sink));
  }
  void Joined(const SourceKey& key, const std::shared_ptr<rpc::ReplySink>& sink,
              const wire::Reply& hello) override;
  void Left(const SourceKey& key, const std::shared_ptr<rpc::ReplySink>& sink) override;
  void ForgetOldest();

  Spool& spool;
  const RelayOptions options;
  std::unique_ptr<rpc::Server> server;
  mutable std::mutex mutex;  // guards what follows
  std::map<SourceKey, Source> sources;
  std::deque<SourceKey> order;  // oldest first
};

void Relay::Impl::Joined(const SourceKey& key, const std::shared_ptr<rpc::ReplySink>& sink,
                         const wire::Reply& hello) {
  std::lock_guard lock(mutex);
  Source& source = sources[key];
  if (!source.known) order.push_back(key);
  source.known = true;
  source.sink = sink;
  (void)sink->Send(hello);
  for (const wire::Reply& reply : source.kept) counters.replies += sink->Send(reply) ? 1 : 0;
  source.kept.clear();
  ForgetOldest();
}

void Relay::Impl::Left(const SourceKey& key, const std::shared_ptr<rpc::ReplySink>& sink) {
  std::lock_guard lock(mutex);
  const auto found = sources.find(key);
  if (found != sources.end() && found->second.sink == sink) found->second.sink = nullptr;
}

// With the lock held: of those that are away.
void Relay::Impl::ForgetOldest() {
  for (size_t looked = order.size(); sources.size() > kMaxKnownSources && looked > 0; --looked) {
    const SourceKey key = order.front();
    order.pop_front();
    if (sources[key].sink == nullptr) {
      sources.erase(key);
    } else {
      order.push_back(key);
    }
  }
}

Relay::Relay(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Relay::~Relay() { Stop(); }

Result<std::unique_ptr<Relay>> Relay::Start(Spool& spool, const RelayOptions& options) {
  FS_RETURN_IF_ERROR(CheckSecurity(options));
  auto impl = std::make_unique<Impl>(spool, options);
  rpc::ServerOptions server;
  server.address = options.address;
  server.cert_file = options.cert_file;
  server.key_file = options.key_file;
  server.client_ca_file = options.client_ca_file;
  server.reload_seconds = options.reload_seconds;
  server.max_message_bytes = options.max_message_bytes;
  server.tell_refused = [](const Refusals::Report& report) {
    LogRefused(kRelayComponent, "connections of agents refused", report);
  };
  FS_ASSIGN_OR_RETURN(impl->server, rpc::Server::Start(server, impl.get(), {}));
  LogInfo(kRelayComponent, "taking streams of agents",
          {{"address", options.address}, {"port", impl->server->port()}});
  return std::unique_ptr<Relay>(new Relay(std::move(impl)));
}

void Relay::Stop() {
  if (impl_->server == nullptr) return;
  impl_->stopping = true;
  impl_->server->Stop(0);
  impl_->server.reset();
}

int Relay::port() const { return impl_->server == nullptr ? 0 : impl_->server->port(); }

void Relay::Deliver(const SourceKey& key, const wire::Reply& reply) {
  std::optional<wire::Reply> down = wire::ForTrainer(reply);
  if (!down) return;
  std::lock_guard lock(impl_->mutex);
  const auto found = impl_->sources.find(key);
  if (found == impl_->sources.end()) return;
  Impl::Source& source = found->second;
  if (source.sink != nullptr && source.sink->Send(*down)) {
    ++impl_->counters.replies;
    return;
  }
  source.kept.push_back(*std::move(down));
  if (source.kept.size() > kMaxKeptForSource) source.kept.pop_front();
}

bool Relay::Knows(const SourceKey& key) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->sources.contains(key);
}

RelayStats Relay::Stats() const {
  const RelayCounters& c = impl_->counters;
  return {.streams = c.streams,
          .accepted = c.accepted,
          .refused = c.refused,
          .records = c.records,
          .bytes = c.bytes,
          .rejected = c.rejected,
          .stalled = c.stalled,
          .replies = c.replies};
}

}  // namespace foreshock::agent
