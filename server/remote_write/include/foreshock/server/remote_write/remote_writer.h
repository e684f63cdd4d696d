// RemoteWriter: sends what comes into the store on to a Prometheus remote_write receiver (v1).
//
// It never holds anything up: frames wait in a queue of bounded size, and when that is full the oldest are
// dropped and counted. What is sent is a copy for dashboards and long-term storage of a fleet; the store
// stays the history.
//
// Time: a sample carries its frame's time. Receivers take a series' samples in the order of time only, so
// frames that are not later than the run's newest sent one (late ranks, a step sent again) are left out and
// counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "foreshock/base/clock.h"
#include "foreshock/base/result.h"
#include "foreshock/server/remote_write/relabel.h"
#include "foreshock/server/store/store.h"

namespace foreshock::remote_write {

struct RemoteWriteOptions {
  std::string url = {};   // http(s)://host:port/path of the receiver
  bool per_head = false;  // one series a head as well: layers x heads x signals of them
  std::map<std::string, std::string> labels = {};   // added to every series, before relabelling
  std::vector<RelabelRule> relabel = {};            // in this order
  std::map<std::string, std::string> headers = {};  // of every request: Authorization, X-Scope-OrgID
  size_t max_queued_bytes = 64u << 20;              // of frames that wait. More: longer outages without loss
  size_t samples_per_request = 10'000;              // about; a frame is not divided. More: fewer requests
  std::chrono::milliseconds flush{
      1000};  // a request is sent when it is full, or so long after its first frame
  std::chrono::milliseconds first_retry{100};    // doubles from one to the next
  std::chrono::milliseconds last_retry{30'000};  // and ends here
  std::chrono::milliseconds timeout{15'000};     // of a request
};

struct RemoteWriteStats {
  uint64_t samples = 0;         // taken by the receiver
  uint64_t requests = 0;        // answered with success
  uint64_t retries = 0;         // after no answer, 429 or 5xx
  uint64_t refused = 0;         // samples in requests that the receiver will never take (4xx)
  uint64_t dropped_frames = 0;  // the queue was full
  uint64_t late_frames = 0;     // not later than the newest one sent
  uint64_t queued_frames = 0;
};

class RemoteWriter {
 public:
  // Watches the store until its end; store and clock must outlive it. kInvalidArgument: what is wrong with
  // the options.
  static Result<std::unique_ptr<RemoteWriter>> Start(const RemoteWriteOptions& options, store::Store& store,
                                                     const Clock& clock);
  virtual ~RemoteWriter() = default;  // what is queued is given up

  virtual RemoteWriteStats stats() const = 0;
  // Ok, or why the last request was not taken.
  virtual Status health() const = 0;
  // Waits until all that was queued before the call is sent or given up; false: not within that time.
  virtual bool Drain(std::chrono::milliseconds at_most) = 0;
};

}  // namespace foreshock::remote_write
