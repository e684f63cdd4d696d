#include "sealer.h"

namespace foreshock::store {

Sealer::Sealer(Work work, std::chrono::milliseconds period)
    : work_(std::move(work)), period_(period), thread_([this] { Run(); }) {}

Sealer::~Sealer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  idle_.notify_all();
  thread_.join();
}

void Sealer::Wake(const FramesOf& source) {
  std::lock_guard lock(mutex_);
  if (full_.insert(source).second) changed_.notify_all();
}

void Sealer::WaitUntilIdle(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  idle_.wait_for(lock, at_most, [this] { return stopping_ || (full_.empty() && !working_); });
}

void Sealer::Run() {
  work_.start();
  auto next_tick = std::chrono::steady_clock::now() + period_;
  for (;;) {
    std::set<FramesOf> full;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, next_tick, [this] { return stopping_ || !full_.empty(); });
      if (stopping_) return;
      full.swap(full_);
      working_ = true;
    }
    for (const FramesOf& source : full) work_.full(source);
    {
      std::lock_guard lock(mutex_);
      working_ = false;
    }
    idle_.notify_all();
    if (std::chrono::steady_clock::now() < next_tick) continue;
    work_.tick();
    next_tick = std::chrono::steady_clock::now() + period_;
  }
}

}  // namespace foreshock::store
