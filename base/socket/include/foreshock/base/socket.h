// What clients and servers of our own ask of sockets and of the hosts behind them. Thread-safe: no state.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace foreshock {

// Waits until one of the events (poll's POLLIN, POLLOUT), an error or a hang-up is there. False when the
// deadline has passed, or the descriptor cannot be polled.
bool WaitForSocket(int fd, short events, std::chrono::steady_clock::time_point deadline);

// Whether only this machine can be reached by it: 127.0.0.0/8, ::1 (without brackets), "localhost". Other
// names count as elsewhere, 127.example.com too: what they resolve to may change.
bool IsLoopback(std::string_view host);

// Lifts the process's limit of open files to the most that it may have without more rights: each connection
// takes one, and shells give 1,024. For main(). Says how many it may open now; 0: no limit.
uint64_t LiftFileLimit();

}  // namespace foreshock
