// Scratch memory of one stream's kernels, which grows in that stream's order: no call waits for the device.
#pragma once

#include <cstddef>

#include "foreshock/base/result.h"
#include "foreshock/sdk/cuda/device.h"

namespace foreshock::cuda {

// Move-only owner. Freed at its end without waiting: nothing that uses it may then be under way.
class StreamScratch {
 public:
  StreamScratch() = default;
  ~StreamScratch();
  StreamScratch(StreamScratch&& other) noexcept;
  StreamScratch& operator=(StreamScratch&& other) noexcept;

  // At least `bytes` for what is enqueued on `stream` of the current device from here on; contents are not
  // kept. Growing (to at least twice the size before) frees the old memory behind what the stream holds now.
  // kInternal: CUDA's words. Not for a stream that is being captured.
  Status Reserve(size_t bytes, Stream stream) noexcept;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  int device_ = kHost;
};

}  // namespace foreshock::cuda
