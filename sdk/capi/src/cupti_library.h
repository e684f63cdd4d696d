// libforeshock_cupti.so in this process, on request.
#pragma once

#include <cstdint>
#include <string>

namespace foreshock::sdk {

struct CuptiLibrary {
  // Device time so far, of Foreshock's kernels and of all; null where nothing is measured.
  void (*times)(uint64_t* own_nanos, uint64_t* all_nanos) = nullptr;
  std::string reason;  // why nothing is measured though it was asked for; empty: it is, or nobody asked
};

// `wanted`: FORESHOCK_CUPTI. Empty or 0: no. 1: the library that lies beside this one, else where the system
// looks. Else its path. Loaded and started once in a process, and never unloaded: CUPTI calls back until the
// very end.
CuptiLibrary LoadCupti(const std::string& wanted);

}  // namespace foreshock::sdk
