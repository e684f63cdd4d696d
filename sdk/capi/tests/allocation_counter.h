// Replaces malloc and its kin in the test that includes it, and counts their calls on threads that ask for
// it. For one source of one program; not under sanitizers, which own malloc.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <cstdlib>

namespace foreshock::testing {

inline thread_local bool counting = false;
inline thread_local int64_t allocator_calls = 0;

inline void CountAllocatorCall() {
  if (counting) ++allocator_calls;
}

}  // namespace foreshock::testing

// glibc's own entry points, so that counting needs no dlsym (which allocates).
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) {
  foreshock::testing::CountAllocatorCall();
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t m) {
  foreshock::testing::CountAllocatorCall();
  return __libc_calloc(n, m);
}
void* realloc(void* p, size_t n) {
  foreshock::testing::CountAllocatorCall();
  return __libc_realloc(p, n);
}
void* memalign(size_t a, size_t n) {
  foreshock::testing::CountAllocatorCall();
  return __libc_memalign(a, n);
}
void* aligned_alloc(size_t a, size_t n) {
  foreshock::testing::CountAllocatorCall();
  return __libc_memalign(a, n);
}
}
