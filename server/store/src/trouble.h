// Failures of work in the background that nobody waits for: counted, and told once a minute. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "foreshock/base/logging.h"
#include "foreshock/base/result.h"

namespace foreshock::store {

class Trouble {
 public:
  enum Kind : size_t { kSealing, kRollups, kCompaction };

  // What failed is done again later: frames stay as they are meanwhile. Ok counts as nothing.
  void Note(Kind kind, const Status& status) {
    if (status.ok()) return;
    static constexpr const char* kWhat[] = {"frames cannot be sealed at present",
                                            "steps cannot be rolled up at present",
                                            "files cannot be compacted at present"};
    ++counts_[kind];
    const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
    int64_t last = told_[kind];
    const bool tell = (last == 0 || now - last >= kBetween) && told_[kind].compare_exchange_strong(last, now);
    if (tell) {
      LogWarning("server/store", kWhat[kind], {{"error", status}, {"failures", counts_[kind].load()}});
    } else {
      LogDebug("server/store", kWhat[kind], {{"error", status}});
    }
  }
  uint64_t count(Kind kind) const { return counts_[kind]; }

 private:
  static constexpr int64_t kBetween =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::minutes(1)).count();
  std::array<std::atomic<uint64_t>, 3> counts_{};
  std::array<std::atomic<int64_t>, 3> told_{};  // steady clock; 0: never
};

}  // namespace foreshock::store
