#include "foreshock/agent/agent.h"

#include <algorithm>

#include "foreshock/base/logging.h"
#include "foreshock/base/socket_folder.h"

namespace foreshock::agent {
namespace {

constexpr std::string_view kComponent = "agent";

// Of several servers those that are away.
std::string AwayServers(const ForwarderStats& stats) {
  std::string names;
  if (stats.servers.size() < 2) return names;
  for (const ServerStats& server : stats.servers) {
    if (server.away) names += (names.empty() ? "" : ", ") + server.address;
  }
  return names;
}

}  // namespace

Agent::Agent(FileSystem& fs, AgentOptions options) : fs_(fs), options_(std::move(options)) {}
Agent::~Agent() { Stop(); }

Result<std::unique_ptr<Agent>> Agent::New(FileSystem& fs, AgentOptions options) {
  if (options.socket_path.empty()) return Status(Code::kInvalidArgument, "socket: empty");
  if (options.spool_dir.empty()) return Status(Code::kInvalidArgument, "spool: empty");
  if (options.status_path.empty()) options.status_path = options.socket_path + ".status.json";
  options.spool.clock = options.receiver.clock = options.forwarder.clock = options.relay.clock =
      options.device.clock = options.clock;
  options.receiver.socket_path = options.socket_path;
  return std::unique_ptr<Agent>(new Agent(fs, std::move(options)));
}

Status Agent::Start() {
  started_unix_ns_ = options_.clock->WallNanos();
  Status status = StartParts();
  if (!status.ok()) StopParts();
  return status;
}

Status Agent::StartParts() {
  FS_RETURN_IF_ERROR(MakeSocketFolder(ParentPath(options_.socket_path)));
  FS_ASSIGN_OR_RETURN(lock_, fs_.Lock(options_.socket_path + ".lock"));
  // One that a killed agent left says "running": whoever waits for this one must not see it.
  const Status removed = fs_.Remove(options_.status_path);
  if (!removed.ok() && removed.code() != Code::kNotFound) {
    LogWarning(kComponent, "cannot remove the old status file", {{"error", removed}});
  }
  SpoolRecovery recovery;
  FS_ASSIGN_OR_RETURN(spool_, Spool::Open(fs_, options_.spool_dir, options_.spool, &recovery));
  for (const std::string& warning : recovery.warnings) {
    LogWarning(kComponent, "spool recovery", {{"detail", warning}});
  }
  LogInfo(kComponent, "spool open",
          {{"dir", options_.spool_dir},
           {"pending", recovery.records},
           {"segments", recovery.segments},
           {"limit_bytes", options_.spool.limit_bytes}});
  FS_ASSIGN_OR_RETURN(receiver_, Receiver::Start(*spool_, options_.receiver));
  device_ = std::make_unique<DeviceWatch>(options_.device);
  if (!options_.relay.address.empty()) {
    FS_ASSIGN_OR_RETURN(relay_, Relay::Start(*spool_, options_.relay));
  }
  if (options_.forwarder.address.empty()) {
    forward_problem_ = "no server configured: records stay in the spool";
  } else {
    auto forwarder = Forwarder::Start(
        *spool_, options_.forwarder,
        [this](const SourceKey& key, const wire::Reply& reply) {
          if (relay_ != nullptr && relay_->Knows(key)) return relay_->Deliver(key, reply);
          receiver_->Deliver(key, reply);
        });
    if (forwarder.ok()) {
      forwarder_ = std::move(forwarder).value();
    } else {
      forward_problem_ = "server unusable (" + forwarder.status().message() + "): records stay in the spool";
    }
  }
  if (!forward_problem_.empty()) LogWarning(kComponent, forward_problem_);
  LogInfo(kComponent, "listening",
          {{"socket", options_.socket_path}, {"server", options_.forwarder.address}});
  return OkStatus();
}

void Agent::Stop() {
  if (spool_ == nullptr) return;
  // First no more records come in, then no more go out: what was received last may still be on its way.
  receiver_->Stop();
  if (relay_ != nullptr) relay_->Stop();
  if (forwarder_ != nullptr) forwarder_->Stop();
  const Status written = WriteStatus("stopped");
  if (!written.ok()) LogWarning(kComponent, "cannot write the status file", {{"error", written}});
  StopParts();
  LogInfo(kComponent, "stopped");
}

void Agent::StopParts() {
  forwarder_.reset();  // calls into the receiver and the relay
  relay_.reset();
  receiver_.reset();
  device_.reset();
  spool_.reset();
  lock_.reset();
}

AgentStats Agent::Stats() const {
  AgentStats stats;
  if (spool_ != nullptr) stats.spool = spool_->Stats();
  if (receiver_ != nullptr) stats.receiver = receiver_->Stats();
  if (forwarder_ != nullptr) stats.forwarder = forwarder_->Stats();
  if (relay_ != nullptr) {
    stats.relay = relay_->Stats();
    stats.relay_port = relay_->port();
  }
  if (device_ != nullptr) stats.device = device_->Health();
  stats.server = options_.forwarder.address;
  if (stats.receiver.stalled > 0) {
    stats.health = "the spool refuses records: at its limit, or the disk is full or failing";
  } else if (!forward_problem_.empty()) {
    stats.health = forward_problem_;
  } else if (!stats.forwarder.refused.empty()) {
    const RefusedSource& first = stats.forwarder.refused.front();
    stats.health = "the server refuses run '" + first.key.run + "': " + first.reason;
    if (stats.forwarder.refused.size() > 1) {
      stats.health += " (and " + std::to_string(stats.forwarder.refused.size() - 1) + " more)";
    }
  } else if (stats.spool.pending > 0 && !stats.forwarder.connected) {
    stats.health = "server away: " + stats.forwarder.last_error;
  } else if (const std::string away = AwayServers(stats.forwarder); !away.empty()) {
    stats.health = "of several servers away: " + away;
  } else {
    stats.health = "ok";
  }
  return stats;
}

bool Agent::Idle() const {
  const AgentStats stats = Stats();
  if (stats.receiver.connections > 0 || stats.relay.streams > 0) return false;
  if (forwarder_ == nullptr || stats.spool.pending == 0) return true;
  const std::vector<SourceInfo> sources = spool_->Sources();
  return std::all_of(sources.begin(), sources.end(), [&](const SourceInfo& source) {
    const auto& refused = stats.forwarder.refused;
    return std::any_of(refused.begin(), refused.end(),
                       [&](const RefusedSource& r) { return r.key == source.key; });
  });
}

Status Agent::WriteStatus() const { return WriteStatus("running"); }

// Replaced by rename, so that readers see a whole one; not synced, because it is worth nothing after a power
// cut.
Status Agent::WriteStatus(const std::string& state) const {
  const std::string temporary = options_.status_path + ".tmp";
  const Status removed = fs_.Remove(temporary);
  if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  FS_ASSIGN_OR_RETURN(auto file, fs_.OpenAppend(temporary));
  FS_RETURN_IF_ERROR(file->Append(StatusJson(Stats(), options_, state, started_unix_ns_)));
  FS_RETURN_IF_ERROR(file->Close());
  return fs_.Rename(temporary, options_.status_path);
}

}  // namespace foreshock::agent
