// BoundedDropOldestQueue<T>: from the training thread to the background thread; full means the oldest goes.
//
// One producer thread, one consumer thread. Every slot is built in the constructor and reused for ever, so a
// T that owns buffers keeps them (warm them up with ForEachSlot). The producer's calls are wait-free: a few
// plain stores and one atomic exchange, no lock, no allocation, no system call, noexcept. The consumer may
// retry while the producer overwrites items under it, but never blocks the producer.
//
// How it works: the ring has `capacity` cells, each of which always owns exactly one slot and says whether
// that slot holds an unread item (and its number). The producer owns one more slot, into which it fills, and
// the consumer one more, from which it reads. Publishing swaps the producer's slot with the cell's; taking
// swaps the consumer's slot with the cell's. So nobody ever touches a slot that another one holds, and an
// item being read is not in the ring and cannot be dropped: with an item in the consumer's hands `capacity`
// more fit.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace foreshock {

struct QueueCounters {
  uint64_t pushed = 0;  // items published
  uint64_t popped = 0;  // items taken
  uint64_t dropped =
      0;  // items overwritten unread; pushed = popped + dropped + waiting, once both sides rest
};

template <typename T>
class BoundedDropOldestQueue {
 public:
  // Capacities are clamped to [1, kMaxCapacity]. Allocates capacity + 2 slots.
  static constexpr size_t kMaxCapacity = (size_t{1} << 20) - 3;

  explicit BoundedDropOldestQueue(size_t capacity)
      : capacity_(std::clamp<size_t>(capacity, 1, kMaxCapacity)),
        slots_(std::make_unique<T[]>(capacity_ + 2)),
        cells_(std::make_unique<std::atomic<uint64_t>[]>(capacity_)),
        producer_slot_(capacity_),
        consumer_slot_(capacity_ + 1) {
    for (size_t i = 0; i < capacity_; ++i) cells_[i].store(EmptyCell(i), std::memory_order_relaxed);
  }

  BoundedDropOldestQueue(const BoundedDropOldestQueue&) = delete;
  BoundedDropOldestQueue& operator=(const BoundedDropOldestQueue&) = delete;

  size_t capacity() const noexcept { return capacity_; }

  // Calls fn(T&) for every slot. Only before the two threads begin.
  template <typename Fn>
  void ForEachSlot(Fn&& fn) {
    for (size_t i = 0; i < capacity_ + 2; ++i) fn(slots_[i]);
  }

  // Producer: the slot to fill. It holds whatever an earlier item left there. Stays the same until Publish.
  T& Slot() noexcept { return slots_[producer_slot_]; }

  // Producer: makes the filled slot the newest item. False when the queue was full and its oldest unread item
  // had to go; it is counted. Slot() is another slot afterwards.
  bool Publish() noexcept {
    const uint64_t number = published_.load(std::memory_order_relaxed);
    // Release hands the filled slot over; acquire takes the other slot over from whoever used it last.
    const uint64_t old =
        cells_[number % capacity_].exchange(FullCell(number, producer_slot_), std::memory_order_acq_rel);
    producer_slot_ = SlotOf(old);
    published_.store(number + 1, std::memory_order_release);
    if (IsEmpty(old)) return true;
    dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return false;
  }

  // Consumer: the oldest unread item, or nullptr when there is none. It stays valid, and the consumer's
  // alone, until the next Take that returns an item. dropped_before: how many items were dropped between this
  // and the one taken before it.
  T* Take(uint64_t* dropped_before) noexcept {
    for (;;) {
      const uint64_t end = published_.load(std::memory_order_acquire);
      if (next_ == end) return nullptr;
      if (end - next_ > capacity_) next_ = end - capacity_;
      std::atomic<uint64_t>& cell = cells_[next_ % capacity_];
      uint64_t expected = cell.load(std::memory_order_acquire);
      // Another number there: the producer has been round the ring and item next_ is gone.
      const bool ours = !IsEmpty(expected) && NumberOf(expected) == next_;
      if (ours && cell.compare_exchange_strong(expected, EmptyCell(consumer_slot_), std::memory_order_acq_rel,
                                               std::memory_order_acquire)) {
        consumer_slot_ = SlotOf(expected);
        *dropped_before = next_ - after_last_taken_;
        after_last_taken_ = ++next_;
        popped_.store(popped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return &slots_[consumer_slot_];
      }
      ++next_;
    }
  }

  // Any thread: counters, each exact in itself, read one after the other.
  QueueCounters Counters() const noexcept {
    QueueCounters counters;
    counters.popped = popped_.load(std::memory_order_relaxed);
    counters.dropped = dropped_.load(std::memory_order_relaxed);
    counters.pushed = published_.load(std::memory_order_acquire);
    return counters;
  }

  // Any thread: true when nothing published is waiting, as far as can be seen.
  bool Empty() const noexcept {
    const QueueCounters counters = Counters();
    return counters.pushed == counters.popped + counters.dropped;
  }

 private:
  // A cell: item number + 1 (0: no item) above 20 bits of slot index.
  static constexpr int kIndexBits = 20;
  static uint64_t EmptyCell(uint64_t slot) noexcept { return slot; }
  static uint64_t FullCell(uint64_t number, uint64_t slot) noexcept {
    return ((number + 1) << kIndexBits) | slot;
  }
  static bool IsEmpty(uint64_t cell) noexcept { return (cell >> kIndexBits) == 0; }
  static uint64_t NumberOf(uint64_t cell) noexcept { return (cell >> kIndexBits) - 1; }
  static size_t SlotOf(uint64_t cell) noexcept { return cell & ((uint64_t{1} << kIndexBits) - 1); }

  const size_t capacity_;
  const std::unique_ptr<T[]> slots_;
  const std::unique_ptr<std::atomic<uint64_t>[]> cells_;

  // Producer's line.
  alignas(64) size_t producer_slot_;
  std::atomic<uint64_t> published_{0};
  std::atomic<uint64_t> dropped_{0};

  // Consumer's line.
  alignas(64) size_t consumer_slot_;
  uint64_t next_ = 0;              // number of the next item to look at
  uint64_t after_last_taken_ = 0;  // number after the last item taken
  std::atomic<uint64_t> popped_{0};
};

}  // namespace foreshock
