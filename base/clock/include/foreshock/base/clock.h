// Time as a parameter, so that tests do not sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace foreshock {

// Reads the time. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since the Unix epoch. May jump.
  virtual int64_t WallNanos() const = 0;
  // Nanoseconds since an arbitrary moment. Never goes back.
  virtual int64_t MonotonicNanos() const = 0;
};

class SystemClock final : public Clock {
 public:
  int64_t WallNanos() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  int64_t MonotonicNanos() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  // One for the whole process.
  static SystemClock& Instance() {
    static SystemClock clock;
    return clock;
  }
};

// Stands still until Advance is called.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t wall_nanos = 1'700'000'000'000'000'000) : wall_(wall_nanos) {}
  int64_t WallNanos() const override { return wall_.load(); }
  int64_t MonotonicNanos() const override { return monotonic_.load(); }
  void Advance(std::chrono::nanoseconds by) {
    wall_ += by.count();
    monotonic_ += by.count();
  }
  void JumpWall(std::chrono::nanoseconds by) { wall_ += by.count(); }

 private:
  std::atomic<int64_t> wall_;
  std::atomic<int64_t> monotonic_{0};
};

}  // namespace foreshock
