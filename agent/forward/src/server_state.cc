#include "server_state.h"

#include <algorithm>
#include <utility>

#include "foreshock/base/logging.h"

namespace foreshock::agent {
namespace {

constexpr int64_t kRemindNs = 600'000'000'000;
constexpr int64_t kSkewWindowNs = 300'000'000'000;

}  // namespace

void ServerState::StreamOpened(const SourceKey& key) {
  std::lock_guard lock(mutex_);
  refused_.erase(key);
  ++stats_.opened;
  ++stats_.streams;
  if (away_) {
    LogInfo(kForwardComponent, "server is back",
            {{"address", address_},
             {"away_seconds", (clock_.MonotonicNanos() - away_since_ns_) / 1'000'000'000}});
  } else if (stats_.opened == 1) {
    LogInfo(kForwardComponent, "connected to the server", {{"address", address_}});
  }
  away_ = false;
}

void ServerState::StreamClosed() {
  std::lock_guard lock(mutex_);
  --stats_.streams;
}

void ServerState::Failed(const SourceKey& key, const Status& status) {
  std::lock_guard lock(mutex_);
  ++stats_.failures;
  stats_.last_error = status.ToString();
  const int64_t now_ns = clock_.MonotonicNanos();
  if (!away_) {
    away_ = true;
    away_since_ns_ = now_ns;
  } else if (now_ns - logged_ns_ < kRemindNs) {
    return;
  }
  logged_ns_ = now_ns;
  LogWarning(kForwardComponent,
             stats_.streams > 0
                 ? "stream to the server broke, keeping its records in the spool and trying again"
                 : "server away, keeping records in the spool and trying again",
             {{"address", address_}, {"source", key.ToString()}, {"error", status}});
}

bool ServerState::Refused(const SourceKey& key, const Status& reason) {
  std::lock_guard lock(mutex_);
  ++stats_.refusals;
  RefusedSource& source = refused_[key];
  ++source.times;
  if (source.reason == reason.message()) return false;
  source.key = key;
  source.reason = reason.message();
  source.final = reason.code() == Code::kInvalidArgument;
  source.since_unix_ns = clock_.WallNanos();
  LogWarning(kForwardComponent,
             source.final
                 ? "the server refuses this Hello, not trying it again; its records stay in the spool"
                 : "the server refuses this source, trying again later; its records stay in the spool",
             {{"address", address_}, {"source", key.ToString()}, {"reason", reason.message()}});
  return true;
}

void ServerState::ForgetOthers(const std::set<SourceKey>& sources) {
  std::lock_guard lock(mutex_);
  std::erase_if(refused_, [&](const auto& entry) { return !sources.contains(entry.first); });
}

void ServerState::ErrorReply(const SourceKey& key, const wire::IngestError& error, bool log) {
  std::lock_guard lock(mutex_);
  ++stats_.errors;
  stats_.last_error = error.message;
  if (!log) return;
  LogWarning(
      kForwardComponent, "the server refuses a record",
      {{"source", key.ToString()}, {"seq", error.seq}, {"field", error.field}, {"error", error.message}});
}

// A reply is on its way for a while, never for less than nothing: the least difference is the best.
void ServerState::SawServerClock(int64_t server_unix_ns) {
  std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.MonotonicNanos();
  if (now_ns - window_began_ns_ >= kSkewWindowNs) {
    skew_before_ns_ = std::exchange(skew_ns_, std::nullopt);
    window_began_ns_ = now_ns;
  }
  const int64_t difference = clock_.WallNanos() - server_unix_ns;
  skew_ns_ = std::min(skew_ns_.value_or(difference), difference);
}

bool ServerState::away() const {
  std::lock_guard lock(mutex_);
  return away_;
}

ForwarderStats ServerState::Stats() const {
  std::lock_guard lock(mutex_);
  ForwarderStats stats = stats_;
  stats.connected = stats.streams > 0;
  stats.sent = sent_.load();
  stats.acknowledged = acknowledged_.load();
  stats.undeliverable = undeliverable_.load();
  if (const auto skew_ns = std::min(skew_ns_, skew_before_ns_, [](const auto& a, const auto& b) {
        return a.has_value() && (!b.has_value() || *a < *b);
      })) {
    stats.clock_skew_seconds = static_cast<double>(*skew_ns) * 1e-9;
  }
  for (const auto& [key, source] : refused_) stats.refused.push_back(source);
  return stats;
}

}  // namespace foreshock::agent
