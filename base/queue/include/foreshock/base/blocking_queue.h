// BlockingQueue<T>: a bounded queue between server-side threads. Never in a trainer: it locks.
//
// Any number of producers and consumers. After Close nothing more goes in, what is inside can still be taken
// out.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace foreshock {

template <typename T>
class BlockingQueue {
 public:
  enum class Outcome { kOk, kFull, kClosed };

  // Capacity in items, at least 1.
  explicit BlockingQueue(size_t capacity) : capacity_(std::max<size_t>(capacity, 1)) {}

  // Never waits. The item is moved from only on kOk.
  Outcome TryPush(T&& item) {
    std::lock_guard lock(mutex_);
    if (closed_) return Outcome::kClosed;
    if (items_.size() >= capacity_) return Outcome::kFull;
    items_.push_back(std::move(item));
    not_empty_.notify_one();
    return Outcome::kOk;
  }

  // Waits for room up to `timeout`; kFull when there was none. The item is moved from only on kOk.
  Outcome Push(T&& item, std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    not_full_.wait_for(lock, timeout, [this] { return closed_ || items_.size() < capacity_; });
    if (closed_) return Outcome::kClosed;
    if (items_.size() >= capacity_) return Outcome::kFull;
    items_.push_back(std::move(item));
    not_empty_.notify_one();
    return Outcome::kOk;
  }

  // The oldest item, waiting up to `timeout` for one. Nothing on time-out, or at once when closed and
  // drained.
  std::optional<T> WaitPop(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    not_empty_.wait_for(lock, timeout, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    not_full_.notify_one();
    return item;
  }

  // Wakes everyone. May be called more than once.
  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    not_empty_.notify_all();
    not_full_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

  size_t Size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace foreshock
