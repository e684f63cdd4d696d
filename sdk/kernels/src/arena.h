// Carves a caller's workspace into aligned arrays. The same code run without memory gives the size, so that
// size and use cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "foreshock/sdk/kernel_status.h"

namespace foreshock::kernels {

class Arena {
 public:
  static constexpr size_t kAlignment = 64;

  // Counts only.
  Arena() = default;
  explicit Arena(Workspace workspace) : limit_(workspace.data == nullptr ? 0 : workspace.bytes) {
    const auto address = reinterpret_cast<uintptr_t>(workspace.data);
    const uintptr_t aligned = (address + kAlignment - 1) / kAlignment * kAlignment;
    base_ = reinterpret_cast<unsigned char*>(aligned);
    used_ = aligned - address;
    start_ = used_;
  }

  // `count` elements, not initialised; null when the workspace is too small or the arena counts only.
  template <typename T>
  T* Take(int64_t count) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    const size_t at = used_;
    used_ += bytes;
    if (base_ == nullptr || used_ > limit_) return nullptr;
    return reinterpret_cast<T*>(base_ + (at - start_));
  }

  // Bytes of a workspace, of any alignment, in which everything taken so far would fit.
  size_t BytesNeeded() const { return used_ - start_ + kAlignment; }
  bool Fits() const { return base_ != nullptr && used_ <= limit_; }

 private:
  unsigned char* base_ = nullptr;
  size_t limit_ = 0;
  size_t used_ = 0;
  size_t start_ = 0;
};

}  // namespace foreshock::kernels
