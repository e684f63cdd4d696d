#include "foreshock/sdk/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace foreshock::sdk {
namespace {

std::atomic<uint64_t> generation{0};
constexpr int kMaxFds = 64;
std::atomic<int> fds[kMaxFds];  // fd + 1; 0: free

void InChild() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (auto& slot : fds) {
    const int fd = slot.exchange(0, std::memory_order_relaxed) - 1;
    if (fd >= 0) close(fd);
  }
}

}  // namespace

uint64_t ForkGeneration() noexcept {
  static const int installed = pthread_atfork(nullptr, nullptr, InChild);
  (void)installed;
  return generation.load(std::memory_order_relaxed);
}

void CloseInChild(int fd) noexcept {
  for (auto& slot : fds) {
    int free = 0;
    if (slot.compare_exchange_strong(free, fd + 1)) return;
  }
}

void ForgetInChild(int fd) noexcept {
  for (auto& slot : fds) {
    int expected = fd + 1;
    if (slot.compare_exchange_strong(expected, 0)) return;
  }
}

}  // namespace foreshock::sdk
