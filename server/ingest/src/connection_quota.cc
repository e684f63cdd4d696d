#include "connection_quota.h"

namespace foreshock::ingest {

Result<std::unique_ptr<ConnectionQuota::Hold>> ConnectionQuota::Take(const std::string& caller,
                                                                     const std::string& connection) {
  std::lock_guard lock(mutex_);
  auto& connections = streams_[caller];
  if (!connections.contains(connection)) {
    if (connections.size() >= most_each_) {
      ++refused_;
      return Status(Code::kResourceExhausted,
                    "connections: " + caller + " has streams on " + std::to_string(connections.size()) +
                        ", at most " + std::to_string(most_each_) + " (max_connections_per_identity)");
    }
    ++open_;
  }
  ++connections[connection];
  return std::make_unique<Hold>(this, caller, connection);
}

void ConnectionQuota::Release(const std::string& caller, const std::string& connection) {
  std::lock_guard lock(mutex_);
  const auto connections = streams_.find(caller);
  const auto streams = connections->second.find(connection);
  if (--streams->second > 0) return;
  --open_;
  connections->second.erase(streams);
  if (connections->second.empty()) streams_.erase(connections);
}

uint64_t ConnectionQuota::open() const {
  std::lock_guard lock(mutex_);
  return open_;
}

uint64_t ConnectionQuota::refused() const {
  std::lock_guard lock(mutex_);
  return refused_;
}

}  // namespace foreshock::ingest
