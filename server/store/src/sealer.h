// The thread that seals in the background: at once where a source has enough open frames, and all tails when
// it is quiet.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "layout.h"

namespace foreshock::store {

class Sealer {
 public:
  struct Work {
    std::function<void()> start;                // once, first
    std::function<void(const FramesOf&)> full;  // a source that Wake() named
    std::function<void()> tick;                 // every `period`
  };
  Sealer(Work work, std::chrono::milliseconds period);
  ~Sealer();  // ends after what is being done
  void Wake(const FramesOf& source);
  // Until all that Wake told is sealed, or the time is over. Not for the sealer's own thread.
  void WaitUntilIdle(std::chrono::milliseconds at_most);

 private:
  void Run();

  const Work work_;
  const std::chrono::milliseconds period_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_, idle_;
  bool working_ = false;
  std::set<FramesOf> full_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace foreshock::store
