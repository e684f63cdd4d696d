// Notices that this process is a forked child of the one that opened a handle. Costs one load; no system
// call.
#pragma once

#include <cstdint>

namespace foreshock::sdk {

// Rises by one in every forked child. Installs the fork handler at the first call; a process whose handler
// could not be installed reports 0 for ever.
uint64_t ForkGeneration() noexcept;

// File descriptors that a forked child closes at once, so that the other side sees the end of the link when
// the trainer dies although a data loader lives on. At most 64; more are not closed. Async-signal-safe in the
// child.
void CloseInChild(int fd) noexcept;
// Call before close(fd).
void ForgetInChild(int fd) noexcept;

}  // namespace foreshock::sdk
