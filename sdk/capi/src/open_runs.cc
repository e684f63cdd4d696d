#include "open_runs.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "run.h"

namespace foreshock::sdk {
namespace {

struct OpenRuns {
  std::mutex mutex;
  std::vector<fs_run*> runs;  // guarded by mutex
};

// Never destroyed: handles may be closed by other exit handlers, in any order.
OpenRuns& All() {
  static OpenRuns* all = new OpenRuns();
  return *all;
}

void FlushAll() {
  std::vector<fs_run*> runs;
  {
    // A forked child may have been made while another thread held the lock: it has nothing to flush anyway.
    const std::unique_lock lock(All().mutex, std::try_to_lock);
    if (!lock.owns_lock()) return;
    runs = All().runs;
  }
  for (fs_run* run : runs) run->FlushAtExit();
}

}  // namespace

void RememberOpen(fs_run* run) {
  static const int registered = std::atexit(FlushAll);
  (void)registered;
  std::lock_guard lock(All().mutex);
  All().runs.push_back(run);
}

void ForgetOpen(fs_run* run) noexcept {
  std::lock_guard lock(All().mutex);
  auto& runs = All().runs;
  runs.erase(std::remove(runs.begin(), runs.end(), run), runs.end());
}

}  // namespace foreshock::sdk
