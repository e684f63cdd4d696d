// How many calls of one kind may be open at a time: in all, and of one caller. A caller that opens many and
// reads none of them then hurts nobody else.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "foreshock/base/result.h"

namespace foreshock::auth {

// Thread-safe. Outlives its slots.
class CallSlots {
 public:
  // `what` names the calls in errors, e.g. "streams"; the limits' option names stand behind the numbers.
  CallSlots(std::string what, size_t most, std::string most_name, size_t most_each, std::string each_name)
      : what_(std::move(what)),
        most_(most),
        most_each_(most_each),
        most_name_(std::move(most_name)),
        each_name_(std::move(each_name)) {}

  // Free again when it dies.
  class Slot {
   public:
    Slot(CallSlots* slots, std::string caller) : slots_(slots), caller_(std::move(caller)) {}
    ~Slot() { slots_->Release(caller_); }
    Slot(const Slot&) = delete;

   private:
    CallSlots* const slots_;
    const std::string caller_;
  };

  // kResourceExhausted naming the limit; counted.
  Result<std::unique_ptr<Slot>> Take(const std::string& caller);

  uint64_t open() const;
  uint64_t refused() const;

 private:
  void Release(const std::string& caller);

  const std::string what_;
  const size_t most_, most_each_;
  const std::string most_name_, each_name_;
  mutable std::mutex mutex_;  // guards everything below
  std::map<std::string, size_t> open_;
  size_t total_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace foreshock::auth
