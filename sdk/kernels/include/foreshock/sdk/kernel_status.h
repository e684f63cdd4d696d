// What a kernel call says about its arguments. Small on purpose: no message, no allocation, safe on the step
// path. A value that is not finite is never an error: it is that head's value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foreshock::kernels {

enum class [[nodiscard]] KernelStatus : uint8_t{
    kOk = 0,
    kNullPointer,   // an argument that must point somewhere is null
    kBadDType,      // a dtype that this tensor may not have (the enum's value is unknown, or fp64 attention)
    kBadShape,      // negative or absurd sizes, shapes that do not fit each other, heads not divisible
    kBadSequences,  // cu_seqlens that fall, start below 0 or end past the tensor
    kBadOption,     // scale not finite, negative soft-cap, sampling interval below 1
    kWorkspaceTooSmall,  // ask the matching ...WorkspaceBytes()
};

constexpr const char* KernelStatusName(KernelStatus status) {
  switch (status) {
    case KernelStatus::kOk:
      return "ok";
    case KernelStatus::kNullPointer:
      return "null pointer";
    case KernelStatus::kBadDType:
      return "unsupported dtype";
    case KernelStatus::kBadShape:
      return "bad shape";
    case KernelStatus::kBadSequences:
      return "bad cu_seqlens";
    case KernelStatus::kBadOption:
      return "bad option";
    case KernelStatus::kWorkspaceTooSmall:
      return "workspace too small";
  }
  return "unknown";
}

// Scratch memory of a call, owned by the caller and reusable by the next call. Any alignment will do: the
// size that ...WorkspaceBytes() gives has room to align. One thread at a time.
struct Workspace {
  void* data = nullptr;
  size_t bytes = 0;
};

}  // namespace foreshock::kernels
