// StreamWatch: closes streams that say no Hello in time, and those whose token is no longer good.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "foreshock/base/clock.h"
#include "foreshock/server/auth/gate.h"
#include "stream_end.h"

namespace foreshock::ingest {

// Thread-safe. Looks once a second.
class StreamWatch {
 public:
  // Gate and clock must outlive it.
  StreamWatch(const auth::Gate& gate, const Clock& clock, std::chrono::milliseconds hello_timeout);
  ~StreamWatch();

  uint64_t Add(auth::Credentials credentials, std::shared_ptr<StreamEnd> end);
  void Greeted(uint64_t id, const std::string& run);
  void Remove(uint64_t id);

  uint64_t late_hellos() const { return late_hellos_; }
  uint64_t revoked() const { return revoked_; }

 private:
  struct Entry {
    auth::Credentials credentials;
    std::shared_ptr<StreamEnd> end;
    int64_t deadline_ns = 0;  // of the Hello
    std::string run;          // empty before it
  };
  void Run();
  void CloseLate();
  void CloseRevoked();

  const auth::Gate& gate_;
  const Clock& clock_;
  const std::chrono::milliseconds hello_timeout_;
  std::atomic<uint64_t> late_hellos_{0}, revoked_{0};
  std::mutex mutex_;  // guards everything below
  std::condition_variable stop_;
  bool stopping_ = false;
  std::map<uint64_t, Entry> entries_;
  uint64_t next_id_ = 1;
  uint64_t generation_;  // of the gate's tokens, when they were last looked at
  std::thread thread_;
};

}  // namespace foreshock::ingest
