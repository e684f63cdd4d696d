// Settings of the C library's allocator for a server.
#pragma once

namespace foreshock {

// For programs whose threads make what other threads free, at a high rate. glibc would give nearly every
// thread an arena of its own, shrink it whenever a little of its end is free, and fault the same pages in
// again a moment later. Afterwards there are at most two arenas, each of which keeps up to 32 MiB that are
// free.
//
// Call it before the first thread starts. Variables of the environment (MALLOC_ARENA_MAX, GLIBC_TUNABLES)
// that set the number of arenas are left alone. Does nothing where the C library is not glibc.
void TuneHeap() noexcept;

}  // namespace foreshock
