#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <thread>

#include "connection.h"
#include "foreshock/agent/receive.h"
#include "foreshock/base/log_refused.h"
#include "foreshock/base/logging.h"
#include "foreshock/wire/reply.h"

namespace foreshock::agent {
namespace {

constexpr size_t kMaxKeptReplies = 64;
constexpr size_t kMaxKeptSources = 4096;

}  // namespace

struct Receiver::Impl final : ConnectionHub {
  Impl(Spool& records, const ReceiverOptions& opts)
      : spool(records), options(opts), attempts(*opts.clock, opts.seed), event(MakeEvent()) {}

  void AcceptLoop();
  bool MayConnect(const PeerCredentials& peer);
  void Admit(Descriptor socket);
  void Reap(bool all);

  void Joined(const SourceKey& key, Connection* connection) override;
  void Left(const SourceKey& key, Connection* connection) override;

  struct Client {
    std::unique_ptr<Connection> connection;
    std::thread thread;
    uint32_t uid = 0;
  };

  Spool& spool;
  const ReceiverOptions options;
  Attempts attempts;
  Descriptor listener;
  const Descriptor event;
  std::thread accepter;
  Refusals refusals;  // the accepter's
  std::atomic<bool> stopping{false};

  mutable std::mutex mutex;  // guards everything below
  std::vector<Client> clients;
  std::map<SourceKey, Connection*> joined;
  std::map<SourceKey, std::deque<wire::Reply>> kept;  // for trainers that are away
};

Receiver::Receiver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Receiver::~Receiver() { Stop(); }

Result<std::unique_ptr<Receiver>> Receiver::Start(Spool& spool, const ReceiverOptions& options) {
  ReceiverOptions checked = options;
  // A batch must leave room in the spool for others.
  checked.batch_bytes = std::min<size_t>(options.batch_bytes, spool.Stats().limit_bytes / 8);
  auto impl = std::make_unique<Impl>(spool, checked);
  for (const SourceInfo& source : spool.Sources()) {
    impl->attempts.Remember(source.key.run, source.key.rank, source.key.incarnation, source.key.attempt);
  }
  FS_ASSIGN_OR_RETURN(impl->listener, ListenUnix(options.socket_path));
  impl->accepter = std::thread([raw = impl.get()] { raw->AcceptLoop(); });
  return std::unique_ptr<Receiver>(new Receiver(std::move(impl)));
}

void Receiver::Stop() {
  if (impl_->stopping.exchange(true)) return;
  SignalEvent(impl_->event);
  impl_->accepter.join();
  ::unlink(impl_->options.socket_path.c_str());
  impl_->Reap(true);
  impl_->listener = Descriptor();
}

void Receiver::Impl::AcceptLoop() {
  while (!stopping.load()) {
    pollfd fds[2] = {{listener.get(), POLLIN, 0}, {event.get(), POLLIN, 0}};
    if (::poll(fds, 2, refusals.WaitMs(std::chrono::steady_clock::now())) < 0 && errno != EINTR) break;
    if ((fds[1].revents & POLLIN) != 0) DrainEvent(event);
    if ((fds[0].revents & POLLIN) != 0) {
      Descriptor socket = AcceptUnix(listener);
      if (socket.valid()) {
        Admit(std::move(socket));
      } else if (errno == EMFILE || errno == ENFILE) {
        // The connection stays in the backlog and poll would spin on it.
        ::poll(nullptr, 0, 100);
      }
    }
    for (const Refusals::Report& report : refusals.Due(std::chrono::steady_clock::now())) {
      LogRefused(kReceiveComponent, "connections of trainers refused", report);
    }
    Reap(false);
  }
}

bool Receiver::Impl::MayConnect(const PeerCredentials& peer) {
  const auto& allowed = options.allowed_uids;
  const bool known = allowed.empty() || peer.uid == 0 || peer.uid == ::geteuid() ||
                     std::find(allowed.begin(), allowed.end(), peer.uid) != allowed.end();
  if (peer.known && known) return true;
  ++counters.refused_users;
  refusals.Note("this user's trainers are not taken (allow-user)", "uid " + std::to_string(peer.uid));
  return false;
}

void Receiver::Impl::Admit(Descriptor socket) {
  const PeerCredentials peer = CredentialsOf(socket);
  if (!MayConnect(peer)) {
    ++counters.refused;
    return;
  }
  std::lock_guard lock(mutex);
  const auto same = [&](const Client& client) { return client.uid == peer.uid; };
  const auto of_user = static_cast<size_t>(std::count_if(clients.begin(), clients.end(), same));
  const bool full = clients.size() >= options.max_connections;
  if (full || of_user >= options.max_connections_per_user) {
    ++counters.refused;
    refusals.Note(
        full ? "max_connections of trainers are here" : "max_connections_per_user of a user are here",
        "uid " + std::to_string(peer.uid));
    return;
  }
  ++counters.accepted;
  Client client;
  client.uid = peer.uid;
  client.connection = std::make_unique<Connection>(std::move(socket), spool, attempts, *this, options);
  client.thread = std::thread([this, connection = client.connection.get()] {
    connection->Run();
    SignalEvent(event);  // to be reaped
  });
  clients.push_back(std::move(client));
}

// Joins the threads of connections that have ended; all: ends them.
void Receiver::Impl::Reap(bool all) {
  std::vector<Client> ended;
  {
    std::lock_guard lock(mutex);
    for (Client& client : clients) {
      if (all) client.connection->Close();
    }
    const auto done = std::partition(clients.begin(), clients.end(), [all](const Client& client) {
      return !all && !client.connection->finished();
    });
    std::move(done, clients.end(), std::back_inserter(ended));
    clients.erase(done, clients.end());
  }
  if (all) spool.Wake();
  for (Client& client : ended) client.thread.join();
}

void Receiver::Impl::Joined(const SourceKey& key, Connection* connection) {
  std::lock_guard lock(mutex);
  Connection*& slot = joined[key];
  if (slot != nullptr && slot != connection) slot->Close();
  slot = connection;
  const auto waiting = kept.find(key);
  if (waiting == kept.end()) return;
  for (const wire::Reply& reply : waiting->second) counters.replies += connection->Send(reply) ? 1 : 0;
  kept.erase(waiting);
}

void Receiver::Impl::Left(const SourceKey& key, Connection* connection) {
  std::lock_guard lock(mutex);
  const auto found = joined.find(key);
  if (found != joined.end() && found->second == connection) joined.erase(found);
}

void Receiver::Deliver(const SourceKey& key, const wire::Reply& reply) {
  std::optional<wire::Reply> down = wire::ForTrainer(reply);
  if (!down) return;
  std::lock_guard lock(impl_->mutex);
  const auto found = impl_->joined.find(key);
  if (found != impl_->joined.end() && found->second->Send(*down)) {
    ++impl_->counters.replies;
    return;
  }
  if (impl_->kept.size() >= kMaxKeptSources && !impl_->kept.contains(key))
    impl_->kept.erase(impl_->kept.begin());
  std::deque<wire::Reply>& waiting = impl_->kept[key];
  waiting.push_back(*std::move(down));
  if (waiting.size() > kMaxKeptReplies) waiting.pop_front();
}

ReceiverStats Receiver::Stats() const {
  const auto& counters = impl_->counters;
  ReceiverStats stats;
  {
    std::lock_guard lock(impl_->mutex);
    stats.connections = impl_->clients.size();
  }
  stats.accepted = counters.accepted;
  stats.refused = counters.refused;
  stats.refused_users = counters.refused_users;
  stats.records = counters.records;
  stats.bytes = counters.bytes;
  stats.damaged = counters.damaged;
  stats.rejected = counters.rejected;
  stats.dropped_by_trainers = counters.dropped_by_trainers;
  stats.stalled = counters.stalled;
  stats.abandoned = counters.abandoned;
  stats.replies = counters.replies;
  return stats;
}

}  // namespace foreshock::agent
