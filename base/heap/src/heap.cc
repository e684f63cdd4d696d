#include "foreshock/base/heap.h"

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace foreshock {

void TuneHeap() noexcept {
#if defined(__GLIBC__)
  constexpr int kArenas = 2;
  constexpr int kKeptBytes = 32 << 20;
  constexpr int kMappedFrom = 4 << 20;  // larger blocks are given back at once
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr && std::getenv("GLIBC_TUNABLES") == nullptr)
    mallopt(M_ARENA_MAX, kArenas);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  mallopt(M_MMAP_THRESHOLD, kMappedFrom);
#endif
}

}  // namespace foreshock
