// A few bytes from a device to the host without waiting.
#pragma once

#include <cstddef>

#include "foreshock/base/result.h"
#include "foreshock/sdk/cuda/device.h"

namespace foreshock::cuda {

// Enqueues a copy to pinned memory; an event recorded behind it says when the bytes are there. kUnavailable
// while the stream records a graph (it would run at each replay, and not now) and where there is no such
// device; kInternal with CUDA's words; kUnimplemented without CUDA.
Status ReadBack(void* pinned, const void* on_device, size_t bytes, int device, Stream stream) noexcept;

}  // namespace foreshock::cuda
