// One target. Thread-safe: alerts come in on one thread, Tick runs on another.
#pragma once

#include <atomic>
#include <memory>

#include "foreshock/server/notify/notifier.h"

namespace foreshock::notify {

class Sender {
 public:
  virtual ~Sender() = default;

  // Reads what was delivered before.
  virtual Status Load() = 0;
  // Never waits for the network.
  virtual void OnAlert(const alert::AlertRecord& record) = 0;
  // A resolved alert that was found at the start: of interest only where the target was told that it fires.
  virtual void OnEnd(const alert::AlertRecord& record) = 0;
  // Sends what is due. One call at a time.
  virtual void Tick() = 0;

  std::atomic<uint64_t> sent{0}, failed{0}, given_up{0}, pending{0}, silenced{0};
};

}  // namespace foreshock::notify
