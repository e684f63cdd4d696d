#include "idle_limit.h"

#include <grpcpp/server_context.h>

namespace foreshock::control {

IdleLimit::IdleLimit(grpc::ServerContext* context, std::chrono::milliseconds limit)
    : context_(*context), limit_(limit), thread_([this] { Run(); }) {}

IdleLimit::~IdleLimit() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void IdleLimit::SetDeadline(Deadline deadline) {
  {
    std::lock_guard lock(mutex_);
    deadline_ = deadline;
  }
  changed_.notify_one();
}

void IdleLimit::Run() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (!deadline_) {
      changed_.wait(lock);
    } else if (std::chrono::steady_clock::now() < *deadline_) {
      changed_.wait_until(lock, *deadline_);
    } else {
      expired_ = true;
      context_.TryCancel();
      return;
    }
  }
}

}  // namespace foreshock::control
