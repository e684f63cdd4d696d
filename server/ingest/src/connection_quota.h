// How many connections one caller has open streams on: each costs the server a socket, buffers and a TLS
// state, however few streams it carries.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "foreshock/base/result.h"

namespace foreshock::ingest {

// Thread-safe. Outlives what Take returns.
class ConnectionQuota {
 public:
  explicit ConnectionQuota(size_t most_each) : most_each_(most_each) {}

  // A stream on a connection; counted until it dies.
  class Hold {
   public:
    Hold(ConnectionQuota* quota, std::string caller, std::string connection)
        : quota_(quota), caller_(std::move(caller)), connection_(std::move(connection)) {}
    ~Hold() { quota_->Release(caller_, connection_); }
    Hold(const Hold&) = delete;

   private:
    ConnectionQuota* const quota_;
    const std::string caller_, connection_;
  };
  // `connection`: the other end's address with its port. kResourceExhausted naming the limit, counted, when
  // it would be one more than the caller may have.
  Result<std::unique_ptr<Hold>> Take(const std::string& caller, const std::string& connection);

  uint64_t open() const;
  uint64_t refused() const;

 private:
  void Release(const std::string& caller, const std::string& connection);

  const size_t most_each_;
  mutable std::mutex mutex_;                                      // guards everything below
  std::map<std::string, std::map<std::string, size_t>> streams_;  // by caller and connection
  uint64_t open_ = 0, refused_ = 0;
};

}  // namespace foreshock::ingest
